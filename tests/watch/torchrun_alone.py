"""What torch alone says of the faulty scripts that ``tests/watch/scoreboard.py`` watches.

    python tests/watch/torchrun_alone.py [--limit SECONDS] [--workers N] [WORD ...]

Each runs under torchrun, to its end or for ``--limit`` seconds, and is counted by how it ended:
with exit code 0 (nobody is told of the fault), with an error (what it says may be of a victim), or
not at all. Scripts with no end of their own within the limit, healthy ones too, count as running.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))

import psutil
import torch
from corpus_cases import expected_of, header_of, missing_for, scripts
from real_ranks import clean_environment

SILENT, FAILED, RUNNING = "ended with 0", "ended with an error", "still running"


def main() -> None:
    """Run them all and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    files = [
        each
        for each in scripts("faults")
        if not missing_for(each) and (not options.words or each.stem in options.words)
    ]
    with ThreadPoolExecutor(options.workers) as workers:
        ends = list(workers.map(partial(_ended, limit_s=options.limit), files))
    families: dict[str, Counter[str]] = defaultdict(Counter)
    for file, end in zip(files, ends, strict=True):
        families[expected_of(file).finding.partition("/")[0]][end] += 1
    print("\n".join(_table(families, options.limit)))


def _table(families: dict[str, Counter[str]], limit_s: float) -> Iterator[str]:
    yield (
        f"torchrun alone, {limit_s:.0f} s | {platform.machine()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )
    yield f"{'family':<12} {'faults':>6} {SILENT:>14} {FAILED:>20} {RUNNING:>14}"
    every: Counter[str] = sum(families.values(), Counter())
    for family, ends in [*sorted(families.items()), ("all", every)]:
        counts = f"{ends[SILENT]:>14} {ends[FAILED]:>20} {ends[RUNNING]:>14}"
        yield f"{family:<12} {ends.total():>6} {counts}"


def _ended(file: Path, limit_s: float) -> str:
    ranks = header_of(file).get("processes", "2")
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, str(file)]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=clean_environment() | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            end = FAILED if process.wait(limit_s) else SILENT
        except subprocess.TimeoutExpired:
            end = RUNNING
        _end_all(process)
    print(f"{file.stem}: {end}", file=sys.stderr, flush=True)
    return end


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End what is left: its ranks, which are of sessions of their own, and what they started."""
    with suppress(psutil.NoSuchProcess):
        for each in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                each.kill()
    process.kill()
    process.wait()


if __name__ == "__main__":
    main()
