"""``ddpcheck`` started by any command, and what a healthy run of two ranks ends with."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from real_ranks import LIMIT_S, Ended, clean_environment, short

from ddpcheck.report import CheckOutcome, RankOutcome, Report, Verdict

# Enough for the loss to fall.
SHORT_TRAINING = ("--steps", "12", "--global-batch", "8")


def ddpcheck(report_dir: Path, *options: str) -> list[str]:
    """Return the words after ``python`` that make it one rank, or all, of a short run."""
    return ["-m", "ddpcheck", "run", *short(report_dir), *options]


def start(report_dir: Path, *words: str, limit_s: float = LIMIT_S, **environment: str) -> Ended:
    """Run a command such as ``mpirun ...`` to its end."""
    began = time.monotonic()
    done = subprocess.run(
        words,
        cwd=report_dir.parent,
        env=clean_environment() | environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    took_s = time.monotonic() - began
    return Ended((done.returncode,), done.stdout, done.stderr, took_s, report_dir)


def python(*words: str) -> list[str]:
    """Return the command that runs this Python."""
    return [sys.executable, *words]


def assert_healthy(ended: Ended, launcher: str, hosts: Sequence[str] = ()) -> None:
    """Two ranks of this launcher met, passed, and told so once; ``hosts`` are theirs."""
    assert set(ended.exit_codes) == {0}, ended.stderr
    assert ended.stdout.count("verdict: PASS") == 1, ended.stdout
    report = ended.report
    assert report.verdict is Verdict.PASS
    assert ended.found() == {}
    run = report.run
    assert (run.launcher, run.requested_world_size, run.world_size) == (launcher, 2, 2)
    assert [each.rank for each in report.ranks] == [0, 1]
    assert [each.outcome for each in report.ranks] == [RankOutcome.OK] * 2
    assert [each.id for each in report.checks if each.outcome is CheckOutcome.ERROR] == []
    if hosts:
        assert [each.host for each in report.ranks] == list(hosts)


def assert_trained(report: Report, strategy: str) -> None:
    """Two ranks have trained as ``SHORT_TRAINING`` says, with this strategy, and learned."""
    training = report.training
    assert training is not None
    assert (training["strategy"], training["world_size"], training["steps"]) == (strategy, 2, 12)
    assert training["final_loss"] < training["loss"][0][1] - 0.5
