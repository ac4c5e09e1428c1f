"""How long the commands take that start no rank, beside a Python that does nothing.

    python tests/benchmarks/start_up.py [--runs 15] [--ranks 64]

The commands run in turn, so that a machine that slows down slows all; with byte code in place, as after
an installation: each ran before. Prints the median wall milliseconds of each, the least and the most,
its CPU milliseconds, and the limit where there is one; ends with 1 where a median is above its limit.

The reports are of as many ranks, made by tests/many_ranks.py: one written, and one of which a crash left
the ranks' files alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(FOLDER), str(FOLDER.parent)]

MS = 1e3
LIMITS_MS = {"--help": 150, "report": 400}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--ranks", type=int, default=64)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        commands = commands_on(*reports_of(options.ranks, Path(folder)))
        took = {name: [measured(words, folder)] for name, words in commands.items()}
        for _ in range(options.runs):
            for name, words in commands.items():
                took[name].append(measured(words, folder))
    print(f"{options.ranks} ranks, {options.runs} runs of each in turn")
    print(f"{'command':<26}{'median ms':>10}{'least':>8}{'most':>8}{'CPU ms':>8}{'limit':>8}")
    missed = [name for name, each in took.items() if not line(name, each[1:])]
    raise SystemExit(f"above the limit: {', '.join(missed)}" if missed else 0)


def reports_of(ranks: int, folder: Path) -> tuple[Path, Path]:
    """Return the directory of a report of so many ranks, and one with their files alone."""
    from many_ranks import write_run

    from ddpcheck.engine.assembly import assemble
    from ddpcheck.report import write_report

    left = folder / "ddpcheck-20261129-000000-0000"
    write_run(left, ranks)
    written = folder / "written"
    written.mkdir()
    write_report(assemble(left, {}), written)
    return written, left


def commands_on(written: Path, left: Path) -> dict[str, list[str]]:
    """Return the words of each command after ``python``, by what it is called here."""
    ours = {
        "--help": ["--help"],
        "list": ["list"],
        "explain": ["explain", "collectives/wrong-values"],
        "report": ["report", str(written)],
        "report --format json": ["report", str(written), "--format", "json"],
        "report of ranks' files": ["report", str(left)],
        "diff": ["diff", str(written), str(written)],
    }
    told = {name: ["-m", "ddpcheck", *words] for name, words in ours.items()}
    return {"python -c pass": ["-c", "pass"], **told}


def measured(words: list[str], folder: str) -> tuple[float, float]:
    """Return wall and CPU milliseconds of one process, which must succeed."""
    kept = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPYCACHEPREFIX": f"{folder}/byte-code"}
    before, began = cpu_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words],
        cwd=FOLDER.parent,
        env=environment,
        capture_output=True,
        check=False,
    )
    took_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{words} ended with {done.returncode}:\n{done.stderr.decode()}")
    return MS * took_s, MS * (cpu_s() - before)


def cpu_s() -> float:
    """Return the CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def line(name: str, took: list[tuple[float, float]]) -> bool:
    """Print what a command took; return whether that is within its limit."""
    wall_ms, cpu_ms = zip(*took, strict=True)
    limit = LIMITS_MS.get(name)
    print(
        f"{name:<26}{median(wall_ms):10.0f}{min(wall_ms):8.0f}{max(wall_ms):8.0f}"
        f"{median(cpu_ms):8.0f}{limit or '':>8}"
    )
    return limit is None or median(wall_ms) <= limit


if __name__ == "__main__":
    main()
