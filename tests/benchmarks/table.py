"""All figures that ddpcheck is held to on CPU ranks, beside their bounds, as one table.

    python tests/benchmarks/table.py [--out FILE] [--only WORD] [--quick]

Runs the other benchmarks of this folder one after the other, each of which runs both of its sides in
turn; that takes some half an hour on a machine that does nothing else, and less, of fewer runs each,
with --quick. What they print in full goes to stderr. Ends with 1 where a bound is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

FOLDER = Path(__file__).parent
NUMBER = r"(\d+(?:\.\d+)?)"
RATIO = rf"median ratio(?: of a step)? {NUMBER} \((.*?)\)"


class Figure(NamedTuple):
    """One line: how it is found in what a benchmark printed, and its bound.

    ``pattern`` has the figure in its first group, and its spread in a second one, if there is one.
    """

    what: str
    bound: float
    pattern: str
    is_at_least: bool = False


class Benchmark(NamedTuple):
    """A script of this folder with its words, for a whole and for a quick table."""

    words: str
    quick: str
    figures: tuple[Figure, ...]


def _preflight(ranks: int, more: str, bound: float) -> Benchmark:
    words = f"preflight_vs_torchrun.py --ranks {ranks} {more}"
    under = " under torchrun" if more else ""
    what = f"ddpcheck run{under} / torchrun hello, {ranks} gloo ranks"
    return Benchmark(f"{words} --runs 5", f"{words} --runs 1", (Figure(what, bound, RATIO),))


STAGE = r"^ +2048 +\S+ +\S+ +" + NUMBER
BENCHMARKS = (
    *(_preflight(ranks, "", 1.0) for ranks in (2, 4, 8)),
    *(_preflight(ranks, "--under-torchrun", 1.3) for ranks in (2, 4, 8)),
    Benchmark(
        "start_up.py",
        "start_up.py --runs 3",
        (
            Figure("ddpcheck --help, ms", 150, rf"^--help +{NUMBER} +(\d+ +\d+)"),
            Figure("ddpcheck report of 64 ranks, ms", 400, rf"^report +{NUMBER} +(\d+ +\d+)"),
        ),
    ),
    Benchmark(
        "control_channel.py --ranks 2048",
        "control_channel.py --ranks 2048",
        (Figure("longest stage of 2048 simulated ranks, s", 5, STAGE),),
    ),
    Benchmark(
        "control_channel.py --ranks 2048 --lost",
        "control_channel.py --ranks 2048 --lost",
        (Figure("the same where one of them is lost, s", 5, STAGE),),
    ),
    Benchmark(
        "watch_overhead.py --runs 20",
        "watch_overhead.py --runs 1",
        (Figure("a step under ddpcheck watch / alone, 2 gloo ranks", 1.05, RATIO),),
    ),
    Benchmark(
        "split_accuracy.py --steps 20",
        "split_accuracy.py --steps 10 --turns 1",
        (
            Figure(
                "exposed communication beside torch.profiler, points",
                5,
                rf"differences in the median [+-]?{NUMBER} points",
            ),
        ),
    ),
    Benchmark(
        "tests_on_ranks.py",
        "tests_on_ranks.py --torchruns 1",
        (
            Figure(
                "one torchrun a test / the pytest plug-in, 50 tests",
                5,
                rf"tests on 2 ranks: .* {NUMBER} times as long\s+\((.*?)\)",
                is_at_least=True,
            ),
        ),
    ),
)


def main() -> int:
    """Run and print; return 1 where a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="")
    parser.add_argument("--only", default="", help="benchmarks whose command has this word")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    lines = [_machine(), f"{'figure':<56}{'bound':>8}{'measured':>10}   spread"]
    missed = 0
    for benchmark in BENCHMARKS:
        if options.only in benchmark.words:
            told = _printed(benchmark.quick if options.quick else benchmark.words)
            for line, is_held in _lines(benchmark, told):
                lines.append(line)
                missed += not is_held
    print("\n".join(lines))
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")
    return int(missed > 0)


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at first | {platform.machine()}, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def _printed(words: str) -> str:
    script, *options = words.split()
    done = subprocess.run(
        [sys.executable, str(FOLDER / script), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    # One that ends with 1 has missed its bound, and printed by how much.
    sys.stderr.write(f"$ {words}\n{done.stdout}{done.stderr}")
    return done.stdout


def _lines(benchmark: Benchmark, told: str) -> Iterator[tuple[str, bool]]:
    """Yield a line for each figure, and whether its bound is held; of several, the worst."""
    for figure in benchmark.figures:
        seen = list(re.finditer(figure.pattern, told, re.MULTILINE))
        if not seen:
            yield f"{figure.what:<56}{figure.bound:>8g}{'none':>10}", False
            continue
        worst = (min if figure.is_at_least else max)(seen, key=lambda each: float(each[1]))
        value = float(worst[1])
        is_held = value >= figure.bound if figure.is_at_least else value <= figure.bound
        spread = " ".join(worst.groups()[1:]).strip()
        yield (
            f"{figure.what:<56}{figure.bound:>8g}{worst[1]:>10}   {spread}{'' if is_held else '   MISSED'}",
            is_held,
        )


if __name__ == "__main__":
    sys.exit(main())
