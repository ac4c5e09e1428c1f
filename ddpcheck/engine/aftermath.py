"""What is left of a script that starts its own ranks, when these have gone."""

from __future__ import annotations

from pathlib import Path

import psutil

from ddpcheck.engine.entries import presence_in, unpack
from ddpcheck.engine.rundir import is_stopped, spare_dir
from ddpcheck.report import REPORT_NAME, Verdict, read_report


class Aftermath:
    """Whether the script need not go on: its ranks were stopped, or lost, and all have gone.

    It may wait for what they would have sent it.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._ended_early: bool | None = None

    def __call__(self) -> bool:
        """Return whether it is over."""
        if self._ended_early is None:
            self._look()
        return bool(self._ended_early) and not any(_lives(pid) for pid in self._pids())

    def _look(self) -> None:
        for place in (self._run_dir, spare_dir(self._run_dir)):
            if (place / REPORT_NAME).is_file():
                lost = read_report(place).verdict is Verdict.INCOMPLETE
                self._ended_early = lost or is_stopped(self._run_dir)

    def _pids(self) -> list[int]:
        files = sorted((self._run_dir / "ranks").glob("*.jsonl"))
        told = (presence_in(unpack(file.read_bytes())) for file in files)
        return [each.pid for each in told if each is not None]


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
