"""Kill a training again and again, at random and in the midst of checkpoints; it goes on each time.

    python tests/kills.py --runs 20 --seed 1 [--steps-a-kill 15]

Two ranks under torchrun. In turn, one of them dies, and torchrun starts both anew; or the whole job
does, and is started again, with --resume as soon as there is a checkpoint. Every second kill comes at
a random moment of a checkpoint being written, the others anywhere: while torch is imported, say. Ends
with 1 unless the training always went on, and its loss curve is that of an untouched one.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from verified import write_sample

from ddpcheck.report import read_report
from ddpcheck.train.checkpoint_folder import BEING_WRITTEN, CheckpointFolder, whole_manifest

# Far above what an attempt takes to its next checkpoint on a busy machine.
LIMIT_S = 120.0
LOOK_S = 0.002
# Moments are drawn from these: a write by two ranks on two cores, and an attempt's first seconds.
WRITE_S = 0.25
ATTEMPT_S = 10.0
# A fast machine needs more, or the training is at its end before the last kill.
STEPS_A_KILL = 15


class BrokenError(Exception):
    """The training did not go on."""


@dataclass
class Training:
    """A training of two ranks whose report and checkpoints are in ``folder``."""

    folder: Path
    strategy: str
    steps: int
    restarts: int
    log: list[Path] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        """Start it, or go on from its last checkpoint."""
        self.log.append(self.folder / f"log-{len(self.log)}.txt")
        launch = f"-m torch.distributed.run --standalone --nproc-per-node=2 --max-restarts={self.restarts}"
        train = (
            f"-m ddpcheck train --from {self.folder} --force --backend gloo --global-batch 4 "
            f"--strategy {self.strategy} --steps {self.steps} --checkpoint-every 2"
        )
        resume = ["--resume"] if self.latest() else []
        with self.log[-1].open("wb") as log:
            words = [sys.executable, *launch.split(), *train.split(), *resume]
            return subprocess.Popen(words, stdout=log, stderr=log)

    def latest(self) -> Path | None:
        """Return the last checkpoint, all of which was found to be as it was written."""
        latest = CheckpointFolder(self.folder).latest()
        if latest is not None:
            whole_manifest(latest)
        return latest

    def being_written(self) -> list[str]:
        """Return the files of a checkpoint newer than the last whole one."""
        newer = self.latest_name() + BEING_WRITTEN
        files = self.folder.glob(f"step-*{BEING_WRITTEN}/*")
        return sorted(each.name for each in files if each.parent.name > newer)

    def latest_name(self) -> str:
        """Return the name of the last checkpoint, or '', without reading it."""
        latest = CheckpointFolder(self.folder).latest()
        return latest.name if latest else ""

    def finish(self, job: subprocess.Popen[bytes]) -> list[Any]:
        """Let it come to its end; return the loss curve."""
        if job.wait(LIMIT_S + self.steps):
            raise BrokenError(self.log[-1].read_text()[-3000:])
        training = read_report(self.folder).training or {}
        return list(training["loss"])


def kill_one_rank(job: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kill a rank, which torchrun may only just be starting."""
    torchrun = psutil.Process(job.pid)
    await_(lambda: bool(torchrun.children()), job)
    chance.choice(torchrun.children()).kill()
    return "one rank"


def kill_all(job: subprocess.Popen[bytes], _chance: random.Random) -> str:
    """Kill torchrun and its ranks."""
    ranks = psutil.Process(job.pid).children()
    for each in [psutil.Process(job.pid), *ranks]:
        each.kill()
    job.wait()
    psutil.wait_procs(ranks, LIMIT_S)
    return "the job"


def await_(condition: Callable[[], bool], job: subprocess.Popen[bytes]) -> None:
    """Wait for something that is to happen while the job runs."""
    until_s = time.monotonic() + LIMIT_S
    while not condition():
        if job.poll() is not None or time.monotonic() > until_s:
            raise BrokenError(f"waited in vain; the job: {job.poll()}")
        time.sleep(LOOK_S)


def kill(
    training: Training, job: subprocess.Popen[bytes], number: int, chance: random.Random
) -> None:
    """Wait for the moment of this kill, kill, and say what is left."""
    before = training.latest_name()
    if number % 2:
        # Not the first that is found: what an earlier kill has left may be that.
        await_(lambda: training.latest_name() > before, job)
        await_(lambda: bool(training.being_written()), job)
    time.sleep(chance.uniform(0, WRITE_S if number % 2 else ATTEMPT_S))
    if job.poll() is not None:
        raise BrokenError(
            f"it ended by itself: {job.poll()}\n{training.log[-1].read_text()[-3000:]}"
        )
    died = (kill_all if number // 2 % 2 else kill_one_rank)(job, chance)
    training.latest()
    print(
        f"kill {number + 1:2}: {died}; left half written: {training.being_written() or 'nothing'}; "
        f"last whole one: {training.latest_name() or 'none'}, {before or 'none'} before",
        flush=True,
    )


def killed_curve(training: Training, runs: int, chance: random.Random) -> list[Any]:
    """Return the loss curve of a training that is killed so often."""
    job = training.start()
    try:
        for number in range(runs):
            if job.poll() is not None:
                job = training.start()
            kill(training, job, number, chance)
        if job.poll() is not None:
            job = training.start()
        return training.finish(job)
    finally:
        if job.poll() is None:
            kill_all(job, chance)


def run(
    folder: Path, strategy: str, runs: int, seed: int, steps_a_kill: int = STEPS_A_KILL
) -> bool:
    """Return whether a training that was killed so often has the curve of an untouched one."""
    steps = steps_a_kill * runs
    curves: list[list[Any]] = []
    for name, kills in (("untouched", 0), ("killed", runs)):
        below = folder / name
        below.mkdir()
        write_sample(below)
        training = Training(below, strategy, steps, restarts=runs)
        curves.append(killed_curve(training, kills, random.Random(seed)))
        print(f"{name}: loss {curves[-1][-1][1]} after {curves[-1][-1][0]} steps", flush=True)
    return curves[0] == curves[1] and len(curves[0]) > 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--steps-a-kill", type=int, default=STEPS_A_KILL)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        how = (options.strategy, options.runs, options.seed, options.steps_a_kill)
        same = run(Path(folder), *how)
    print("the loss curves are the same" if same else "the loss curves DIFFER")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
