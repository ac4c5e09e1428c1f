"""What ``ddpcheck watch`` adds to a training step, and to the memory of its GPU.

    python tests/benchmarks/watch_overhead.py [--runs N] [-- options of watched_steps.py]

The same script runs watched and not, in turn, each of them first in every second pair; each says the median of its own steps.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

SCRIPT = Path(__file__).with_name("watched_steps.py")
RANKS = "--nproc-per-node=2"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("rest", nargs="*")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        words = [str(SCRIPT), *options.rest]
        watch = ["-m", "ddpcheck", "watch", RANKS, "--steps=0", f"--report-dir={folder}/reports"]
        bare = ["-m", "torch.distributed.run", "--standalone", RANKS]
        pairs = [
            _pair(watch + words, bare + words, folder, number % 2 == 1)
            for number in range(options.runs)
        ]
    for watched, alone in pairs:
        print(
            f"  watched {watched[0]:.2f} ms   alone {alone[0]:.2f} ms   {watched[0] / alone[0]:.3f}"
        )
    ratios = sorted(watched[0] / alone[0] for watched, alone in pairs)
    parameters = pairs[0][1][1]
    # Now and then a run alone needs a bucket more at once than the other runs do.
    watched_bytes, alone_bytes = (
        median(each[2] for each in own) for own in zip(*pairs, strict=True)
    )
    more = int(watched_bytes - alone_bytes)
    print(
        f"{parameters:,} parameters: median ratio of a step {median(ratios):.3f} "
        f"({ratios[0]:.3f} to {ratios[-1]:.3f}); {more:,} bytes more on the GPU, "
        f"{more / (4 * parameters):.1%} of the parameters"
    )


def _pair(
    watch: list[str], bare: list[str], folder: str, bare_first: bool
) -> tuple[tuple[float, int, int], tuple[float, int, int]]:
    """Return what both told; which runs first takes turns, for a machine may tire, or warm up."""
    if bare_first:
        alone = _step(bare, folder)
        return _step(watch, folder), alone
    return _step(watch, folder), _step(bare, folder)


def _step(arguments: list[str], folder: str) -> tuple[float, int, int]:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    told = re.search(r"^step (\S+) ms (\d+) (\d+)$", done.stdout, re.MULTILINE)
    if done.returncode or told is None:
        raise SystemExit(f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return float(told[1]), int(told[2]), int(told[3])


if __name__ == "__main__":
    main()
