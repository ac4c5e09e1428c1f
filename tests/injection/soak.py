"""Healthy runs, one after another on a loaded machine: none may end with anything but 0.

    python tests/injection/soak.py [--runs 200] [--ranks 2] [--load 2] [--whole]

Runs ``ddpcheck run --profile quick`` beside ``--load`` busy processes. The ranks of all runs share
one import of torch, unless ``--whole``: then each run is a command of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

import real_ranks
import torch


def main() -> int:
    """Run, and return 1 when a run did not end with 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--load", type=int, default=2)
    parser.add_argument("--whole", action="store_true")
    options = parser.parse_args()
    load = [multiprocessing.Process(target=_burn, daemon=True) for _ in range(options.load)]
    for process in load:
        process.start()
    took_s: list[float] = []
    bad = 0
    for number in range(options.runs):
        ended = _run(options.ranks, whole=options.whole)
        took_s.append(ended.took_s)
        if ended.exit_code:
            bad += 1
            print(f"run {number}: exit {ended.exit_code}\n{ended.stdout}{ended.stderr}", flush=True)
    for process in load:
        process.kill()
    print(
        f"{options.runs} runs of {options.ranks} ranks beside {options.load} busy processes: "
        f"{options.runs - bad} ended with 0, {bad} did not; median {median(took_s):.1f} s, "
        f"longest {max(took_s):.1f} s | {platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}"
    )
    return int(bad > 0)


def _run(ranks: int, *, whole: bool) -> real_ranks.Ended:
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "reports"
        if not whole:
            return real_ranks.run(reports, "--nproc-per-node", str(ranks))
        words = ["run", "--profile", "quick", "--report-dir", str(reports)]
        return real_ranks.command(reports, "ddpcheck", *words, "--nproc-per-node", str(ranks))


def _burn() -> None:
    until = time.monotonic() + 24 * 3600
    while time.monotonic() < until:
        pass


if __name__ == "__main__":
    sys.exit(main())
