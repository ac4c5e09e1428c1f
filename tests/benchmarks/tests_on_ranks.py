"""Fifty small tests on two ranks: the pytest plug-in beside one torchrun a test.

    python tests/benchmarks/tests_on_ranks.py [--torchruns N] [--repeat N]

Runs the suite with the plug-in, and torchrun with one of its tests, N times, in turn; a torchrun for
each of the fifty would take fifty times as long as one. With --repeat, runs the suite so often in
two processes of pytest-xdist at once (``-n 2``), and counts runs that did not pass.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = 50
SUITE = f"""
import pytest
import torch
import torch.distributed as dist

@pytest.mark.ranks(2)
@pytest.mark.parametrize("value", range({TESTS}))
def test_sum(value):
    tensor = torch.full((4,), float(value))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0 * value] * 4
"""
SCRIPT = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.full((4,), 3.0)
dist.all_reduce(tensor)
assert tensor.tolist() == [6.0] * 4
dist.destroy_process_group()
"""


def main() -> int:
    """Measure, and print; return 1 where a run with ``--repeat`` did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torchruns", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_sums.py").write_text(SUITE)
        (folder / "script.py").write_text(SCRIPT)
        return (
            repeated(folder, options.repeat)
            if options.repeat
            else beside(folder, options.torchruns)
        )


def beside(folder: Path, rounds: int) -> int:
    """Print how long the suite takes, and as many torchruns would."""
    suites, torchruns = [], []
    for _ in range(rounds):
        suites.append(seconds(folder, *PLUGIN))
        torchruns.append(seconds(folder, *TORCHRUN))
    suite, one = statistics.median(suites), statistics.median(torchruns)
    ratios = sorted(TESTS * b / a for a, b in zip(suites, torchruns, strict=True))
    print(
        f"{TESTS} tests on 2 ranks: {suite:.1f} s in the median of {rounds}; a torchrun {one:.1f} s, "
        f"{TESTS} of them {TESTS * one:.0f} s: {statistics.median(ratios):.1f} times as long "
        f"({ratios[0]:.1f} to {ratios[-1]:.1f})"
    )
    return 0


def repeated(folder: Path, times: int) -> int:
    """Print in how many runs with two processes of pytest-xdist all tests passed."""
    passed = sum(succeeds(folder, *PLUGIN, "-n", "2") for _ in range(times))
    print(f"{TESTS} tests on 2 ranks in 2 processes at once: {passed} of {times} runs passed")
    return int(passed < times)


PLUGIN = ("pytest", "-q", "-p", "no:cacheprovider")
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py")


def seconds(folder: Path, *words: str) -> float:
    """Return how long a command takes that must succeed."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def succeeds(folder: Path, *words: str) -> bool:
    """Return whether a command succeeds; what it printed is shown otherwise."""
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        print(ended.stdout[-4000:])
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
