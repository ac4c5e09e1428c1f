"""The whole injection matrix: every fault, rank, launcher and moment, on real ranks.

    python tests/injection/matrix.py [--workers N] [--out FILE] [WORD ...]

Each WORD keeps the cells that have it: a fault, a moment, a launcher, or "rank0". Prints a line
a cell as it goes; ends with 1 when a cell is wrong. Needs root, for a small disk to fill.
With INJECTION_GPUS=0,1 and INJECTION_RANKS=2 the ranks join an NCCL group.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# As pytest does for the tests: modules beside and above this one.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import torch
from cells import DEADLINE_S, RANKS, Cell, Seen, all_cells, one_line, try_cell


def main() -> int:
    """Try the cells and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", default="")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    cells = [cell for cell in all_cells() if set(options.words) <= _words_of(cell)]
    lines = [_headline(len(cells))]
    print(lines[0], flush=True)
    context = multiprocessing.get_context("spawn")
    wrong = 0
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        for cell, seen in zip(cells, pool.map(_try, cells), strict=True):
            wrong += bool(seen.wrong)
            lines.append(one_line(cell, seen))
            print(lines[-1], flush=True)
    lines.append(f"{len(cells)} cells, {wrong} wrong")
    print(lines[-1])
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")
    return int(wrong > 0)


def _words_of(cell: Cell) -> set[str]:
    return {cell.what, cell.moment, cell.launcher, f"rank{cell.rank}"}


def _try(cell: Cell) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        return try_cell(cell, Path(folder))


def _headline(count: int) -> str:
    return (
        f"{count} cells, {RANKS} ranks, deadline {DEADLINE_S:.0f} s | {platform.machine()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}\n"
        "fault          moment       rank launcher  exit code, verdict, ranks named, "
        "seconds from the deed to the verdict and to the end"
    )


if __name__ == "__main__":
    sys.exit(main())
