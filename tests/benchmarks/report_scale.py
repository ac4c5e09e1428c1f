"""How long a report of thousands of ranks takes, in which memory: merged, judged, rendered.

Usage: python tests/benchmarks/report_scale.py [--ranks 4096]

Makes the files that so many ranks would leave (see tests/many_ranks.py; that takes minutes, and
counts for nothing), and then, in a process of its own, what ``ddpcheck report`` does of them in
every format. Prints a line a step, with the seconds and CPU seconds it took, the most memory so far, and
the size of what it made; then the findings, in which the three odd hosts and ranks must be named.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

MIB_KIB = 1024
KB_BYTES = 1000
Made = TypeVar("Made")
LIMITS = "limits: 10 s, 1024 MiB, report.json 5000 kB"


def main() -> None:
    """Make the files of the ranks, and measure in a fresh process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4096)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        Measuring().run(options.measure)
        return
    from many_ranks import write_run

    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "ddpcheck-20261129-000000-0000"
        write_run(run_dir, options.ranks)
        print(f"{options.ranks} ranks; {LIMITS}", flush=True)
        command = [sys.executable, __file__, "--measure", str(run_dir)]
        raise SystemExit(subprocess.run(command, check=False).returncode)


class Measuring:
    """Takes the steps one after the other, and prints a line for each."""

    def __init__(self) -> None:
        self._took_s = self._cpu_s = 0.0
        print(f"{'step':<24}{'s':>8}{'CPU s':>8}{'MiB':>8}{'kB':>10}", flush=True)

    def run(self, run_dir: Path) -> None:
        """Measure all steps on a run directory."""
        self._step("start", _start)
        from ddpcheck.engine.assembly import assemble
        from ddpcheck.render import formats, render
        from ddpcheck.report import from_json, to_json

        report = self._step("merge and judge", lambda: assemble(run_dir, {}))
        text = self._step("report.json", lambda: to_json(report))
        again = self._step("read it", lambda: from_json(text))
        for name in formats():
            self._step(name, partial(render, again, name, str(run_dir)))
        self._line("altogether", self._took_s, self._cpu_s)
        for found in report.findings:
            print(f"{found.severity.value:<8} {found.id}: {found.message[:120]}")

    def _step(self, name: str, action: Callable[[], Made]) -> Made:
        began, cpu = time.monotonic(), time.process_time()
        made = action()
        took_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
        self._took_s += took_s
        self._cpu_s += cpu_s
        size = len(made) if isinstance(made, str | bytes) else 0
        self._line(name, took_s, cpu_s, f"{size / KB_BYTES:10.1f}" if size else "")
        return made

    def _line(self, name: str, took_s: float, cpu_s: float, size: str = "") -> None:
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MIB_KIB
        print(f"{name:<24}{took_s:8.2f}{cpu_s:8.2f}{peak_mib:8.0f}{size}", flush=True)


def _start() -> None:
    from ddpcheck.catalogue import catalogue

    catalogue()


if __name__ == "__main__":
    main()
