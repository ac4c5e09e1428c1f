"""The judges' tests run by themselves: without torch, without ranks, in seconds."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
JUDGES = sorted(
    file for file in TESTS.glob("checks/*/test_*.py") if not file.stem.endswith("_probe")
)
# Plug-ins and options of this run, such as its workers, are none of theirs.
SOURCE = """
import sys, time
import pytest
started = time.perf_counter()
code = pytest.main(["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", *sys.argv[1:]])
took_s = time.perf_counter() - started
imported = sorted(name for name in ("torch", "numpy", "pynvml") if name in sys.modules)
print(f"took {took_s:.1f} s; imported: {imported}")
sys.exit(code)
"""


def test_every_check_has_a_test_of_its_judge() -> None:
    families = {
        (file.parent.name, file.stem)
        for file in TESTS.parent.glob("checks/*/*.py")
        if file.stem != "__init__"
    }
    tested = {(file.parent.name, file.stem.removeprefix("test_")) for file in JUDGES}
    assert families - tested == set()


def test_the_judges_tests_need_neither_torch_nor_ranks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, *map(str, JUDGES)],
        cwd=TESTS.parent,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stdout.splitlines()[-1]
    print(last)
    assert done.returncode == 0, done.stdout
    assert last.endswith("imported: []"), last
