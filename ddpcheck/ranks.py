"""What a process does that is one rank. It imports torch, which its caller may not."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from ddpcheck.catalogue import catalogue
from ddpcheck.engine.pauses import imported_for_good
from ddpcheck.engine.rundir import new_run_id
from ddpcheck.errors import CatalogueError
from ddpcheck.launch.endings import REQUESTS_TO_END
from ddpcheck.report import Report
from ddpcheck.settings import RunSettings, TrainSettings
from ddpcheck.showing import show

# DDP and the optimizers import it on first use.
COMPILER = "torch._dynamo"


@dataclass(frozen=True)
class LocalRun:
    """What a local rank of ``ddpcheck run`` is given."""

    settings: RunSettings
    run_id: str


@dataclass(frozen=True)
class Printer:
    """Shows a report in a format."""

    fmt: str

    def __call__(self, finished: Report, path: Path) -> None:
        """Show it; ``path`` is that of its file."""
        show(finished, self.fmt, path)


def run_as_rank(settings: RunSettings) -> int:
    """Be a rank that a launcher has started; the one that leads shows the report."""
    with imported_for_good():
        from ddpcheck.engine.rank import run_rank

        import_module(COMPILER)
        with suppress(CatalogueError):  # who needs it tells of it
            catalogue()
    return run_rank(settings, new_run_id(), Printer(settings.format))


def train_as_rank(settings: TrainSettings) -> int:
    """Be a rank of the reference training that a launcher has started."""
    with imported_for_good():
        from ddpcheck.train.rank import train_rank

        import_module(COMPILER)
    return train_rank(settings)


def run_in_rank(job: LocalRun) -> int:
    """Be one local rank; the parent shows the report."""
    from ddpcheck.engine.rank import run_rank

    return run_rank(job.settings, job.run_id, _leave_it_to_the_parent)


def run_script_alone(job: LocalRun) -> int:
    """Run a script that starts its own ranks; the parent shows the report."""
    from ddpcheck.engine.following import follow_script

    return follow_script(job.settings, job.run_id)


def train_in_rank(settings: TrainSettings) -> int:
    """Be one local rank of the reference training."""
    from ddpcheck.train.rank import train_rank

    for number in REQUESTS_TO_END:
        signal.signal(number, signal.SIG_DFL)  # there is nothing to tell of a broken training
    return train_rank(settings)


def _leave_it_to_the_parent(_finished: Report, _path: Path) -> None:
    """Show nothing: the parent reads the report file and shows it."""
