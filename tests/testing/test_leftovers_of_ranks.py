"""What ranks leave behind, and what they take from the pytest that asks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from own_pytest import run, summary, written

SUITE = """
import asyncio
import subprocess
import time
import unittest
from pathlib import Path

import pytest
import torch.distributed as dist

FOLDER = Path(__file__).parent

def start():
    pid = subprocess.Popen(["sleep", "1000"]).pid
    (FOLDER / f"child-{pid}").touch()

@pytest.mark.ranks(2)
def test_leaves_a_child():
    start()

@pytest.mark.ranks(2, timeout=2)
def test_hangs_with_a_child():
    start()
    time.sleep(1000)

class TestAsync(unittest.IsolatedAsyncioTestCase):
    @pytest.mark.ranks(2)
    async def test_coroutine(self):
        await asyncio.sleep(0)
        dist.barrier()
"""
HOOKS = """
def pytest_addoption(parser):
    parser.addoption("--unsendable", default=lambda: 1)

def pytest_collection_modifyitems(config, items):
    items[:] = items[1::2]
"""
COUNTING = """
import pytest

@pytest.mark.ranks(2)
@pytest.mark.parametrize("number", range(3))
def test_counting(number): ...
"""
UNGUARDED = """
import sys
import pytest
sys.exit(pytest.main(["-k", "test_coroutine"]))
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("suite"), "leaving", SUITE)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waits for may stay as a zombie."""
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and ") Z " not in state.read_text()


def test_what_tests_start_ends_with_their_ranks(suite: Path) -> None:
    printed = run(suite)
    assert summary(printed.replace("TestAsync::", "")) == {
        "test_leaves_a_child": "PASSED",
        "test_hangs_with_a_child": "FAILED",
        "test_coroutine": "PASSED",
    }, printed
    pids = [int(file.name.partition("-")[2]) for file in suite.glob("child-*")]
    assert len(pids) == 4
    assert not any(map(is_alive, pids))


def test_tests_are_selected_among_those_of_all_files(tmp_path: Path) -> None:
    folder = written(tmp_path / "suite", "first", COUNTING)
    written(folder, "second", COUNTING)
    (folder / "conftest.py").write_text(HOOKS)
    printed = run(folder)
    assert re.search(r"\b3 passed", printed), printed


@pytest.mark.thorough
def test_a_script_that_ranks_would_run_again_is_told_of(suite: Path) -> None:
    script = suite / "run_tests.py"
    script.write_text(UNGUARDED)
    environ = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, script.name]
    ended = subprocess.run(
        command, cwd=suite, env=environ, capture_output=True, text=True, check=False
    )
    assert "under if __name__ == '__main__'" in ended.stdout
    assert "1 error" in ended.stdout.splitlines()[-1], ended.stdout
