"""How long the stages before the process group take, on top of starting the ranks.

    python tests/benchmarks/early_stages.py [--ranks 8] [--runs 5]

Prints for each run the wall seconds of launch, environment and network, as the leader took them
from its first to its last rank's word, and the median of their sums.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import tempfile
from statistics import median

import torch

STAGES = ("launch", "environment", "network")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    sums = [_one(options.ranks) for _ in range(options.runs)]
    print(
        f"{options.ranks} ranks: {', '.join(STAGES)} together {median(sums):.1f} s in the median "
        f"({min(sums):.1f} to {max(sums):.1f})"
    )


def _one(ranks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        words = ["run", f"--nproc-per-node={ranks}", "--select", ",".join(STAGES)]
        done = subprocess.run(
            [sys.executable, "-m", "ddpcheck", *words, f"--report-dir={folder}"],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"the run ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    found = dict(re.findall(r"^  (\w+) +\d+/\d+ +([\d.]+) s", done.stderr, re.MULTILINE))
    took = {stage: float(found[stage]) for stage in STAGES}
    print("  " + "   ".join(f"{stage} {took_s:.1f} s" for stage, took_s in took.items()))
    return sum(took.values())


if __name__ == "__main__":
    main()
