"""The corpus under ``ddpcheck watch``, as a table: found, located and false alarms by family.

    python tests/watch/scoreboard.py [--out FILE] [--workers N] [WORD ...]

Seconds are those of the whole command, torch's import apart: no less than from the faulty call to the
report. Each WORD keeps the scripts whose name has it. Ends with 1 where anything is not as it should be.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

# As pytest does for the tests: modules beside and above this one.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import torch
from corpus_cases import Seen, expected_of, header_of, missing_for, scripts, try_clean, try_fault


def main() -> int:
    """Watch them all and print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    files = _chosen(options.words)
    # Each worker has ranks of its own: a fork server that has imported torch.
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as workers:
        seen = dict(zip(files, workers.map(_tried, files), strict=True))
    lines = list(_table(seen))
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")
    return int(any(each.others or each.located is False for each in seen.values()))


def _chosen(words: list[str]) -> list[Path]:
    every = [*scripts("faults"), *scripts("clean")]
    chosen = [file for file in every if not words or any(word in file.stem for word in words)]
    for file in chosen:
        if missing := missing_for(file):
            raise SystemExit(f"{file.name} needs {', '.join(missing)}")
    return chosen


def _tried(file: Path) -> Seen:
    attempt = try_fault if file.parent.name == "faults" else try_clean
    with tempfile.TemporaryDirectory() as folder:
        seen = attempt(file, Path(folder))
    print(f"{file.parent.name}/{file.stem}: {_in_words(seen)}", file=sys.stderr, flush=True)
    return seen


def _in_words(seen: Seen) -> str:
    words = {None: "", True: "found, ", False: "MISSED, "}[seen.found]
    words += {None: "", True: "located, ", False: "NOT LOCATED, "}[seen.located]
    return f"{words}{seen.ended.took_s:.1f} s{''.join(f', told of {each}' for each in seen.others)}"


def _table(seen: dict[Path, Seen]) -> Iterator[str]:
    yield (
        f"2 gloo ranks | {platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}"
    )
    yield f"{'family':<12} {'faults':>6} {'found':>6} {'located':>8} {'median s':>9} {'longest s':>10}"
    families: dict[str, list[Seen]] = defaultdict(list)
    for file, each in seen.items():
        if each.found is not None:
            families[expected_of(file).finding.partition("/")[0]].append(each)
    for family, cases in sorted(families.items()):
        yield _row(family, cases)
    yield _row("all", [each for each in seen.values() if each.found is not None])
    told = {header_of(f).get("fault", ""): each for f, each in seen.items() if each.found}
    yield f"given faults, one or more scripts each: {' '.join(sorted(filter(None, told)))}"
    clean = [each for each in seen.values() if each.found is None]
    alarms = sum(bool(each.others) for each in clean)
    yield f"clean scripts: {len(clean)}, of which {alarms} were told of anything above info"


def _row(family: str, cases: Sequence[Seen]) -> str:
    found, located = sum(bool(c.found) for c in cases), sum(bool(c.located) for c in cases)
    took_s = [each.ended.took_s for each in cases]
    return (
        f"{family:<12} {len(cases):>6} {found:>6} {located:>8} {median(took_s):>9.1f} "
        f"{max(took_s):>10.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
