"""The pytest plug-in, in a pytest of its own, on real gloo ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from own_pytest import SUITES, of, run, summary, written


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest prints of the suite that passes, on two of pytest-xdist's processes."""
    return run(written(tmp_path_factory.mktemp("passing"), "passing_on_ranks"), "-n", "2")


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest prints of the suite that fails."""
    return run(written(tmp_path_factory.mktemp("failing"), "failing_on_ranks"))


def test_what_passes_on_all_ranks_passes(passing: str) -> None:
    assert "10 passed" in passing.splitlines()[-1], passing


def test_outcomes(failing: str) -> None:
    passed = {test for test, outcome in summary(failing).items() if outcome == "PASSED"}
    assert passed == {"test_after_all_that"}
    assert "9 failed, 1 passed, 1 skipped, 1 xfailed, 4 errors" in failing, failing


def test_a_failure_is_that_of_the_rank_that_failed_by_itself(failing: str) -> None:
    shown = of("test_one_fails", failing)
    assert "{'b': 1} != {'b': 0}" in shown
    assert "on rank 1 of 2" in shown
    assert re.search(r"rank 0: RuntimeError: .*its peer had failed", shown)
    assert "call, rank 0 -" in shown
    assert "written by 1" in shown
    assert re.search(r"FAILED .*test_one_fails - \[rank 1 of 2\] AssertionError", failing)


def test_ranks_that_fail_alike_are_told_once(failing: str) -> None:
    shown = of("test_both_fail", failing)
    assert shown.count("E       assert 2 == 3\n") == 1
    assert "rank 1: assert 2 == 3" in shown


def test_a_rank_that_died_is_named_with_its_signal(failing: str) -> None:
    assert "rank 1 was ended by SIGKILL" in of("test_dies", failing)
    assert "rank 0 was ended by exit code 7" in of("test_leaves", failing)


def test_who_skipped_a_collective_is_told_at_once_with_the_line(failing: str) -> None:
    shown = of("test_skipped_collective", failing)
    assert "rank 1 came to the end of the test and will not enter it" in shown
    line = 1 + (SUITES / "failing_on_ranks.py").read_text().splitlines().index(
        "        dist.all_reduce(torch.ones(1))"
    )
    assert f"rank 0 waits in all_reduce at test_failing_on_ranks.py:{line}" in shown
    assert "in test_skipped_collective" in shown


def test_ranks_in_unlike_collectives_are_told_apart(failing: str) -> None:
    shown = of("test_unlike_collectives", failing)
    assert "the ranks wait in different collectives" in shown
    assert re.search(r"rank 0 waits in all_reduce at .*\n.*rank 1 waits in barrier at ", shown)


def test_a_rank_that_is_busy_beyond_the_time_is_told_apart_from_who_waits(failing: str) -> None:
    shown = of("test_busy", failing)
    assert "rank 0 is in no collective" in shown
    assert "rank 1 waits in barrier" in shown
    assert "time.sleep(1000)" in shown


def test_a_skip_on_some_ranks_is_no_skip(failing: str) -> None:
    assert "rank 1 skipped the test, and rank 0 did not" in of("test_one_skips", failing)


def test_advice(failing: str) -> None:
    assert "group=False" in of("test_joins_twice", failing)
    assert "give a number of ranks from 1" in of("test_no_ranks", failing)
    assert "unexpected keyword argument 'retries'" in of("test_unknown_argument", failing)
    assert "mark the test with @pytest.mark.ranks(2)" in of("test_fixture_without_ranks", failing)


def test_a_fixture_that_raises_is_an_error_of_the_setup(failing: str) -> None:
    assert "LookupError: no such thing" in of("test_broken_fixture", failing)


COUNTING = """
import pytest
import torch.distributed as dist

@pytest.mark.ranks(2)
@pytest.mark.parametrize("n", range(3))
def test_counts(n):
    dist.barrier()
    assert n != 1
"""


def test_selection_and_stopping_are_pytests_own(tmp_path: Path) -> None:
    folder = written(tmp_path / "suite", "counting", COUNTING)
    stopped = run(folder, "-x", "--pdb")
    assert "1 failed, 1 passed" in stopped, stopped
    assert "--pdb and breakpoint() cannot enter a test on ranks" in stopped
    chosen = run(folder, "-k", "not 1")
    assert "2 passed, 1 deselected" in chosen, chosen


MEASURED = """
import pytest
import measured_code

@pytest.mark.ranks(2)
def test_covered(ddpcheck_world):
    measured_code.branch(ddpcheck_world.rank)
"""
CODE = """
def branch(rank):
    if rank == 0:
        return "first"
    return "other"
"""


@pytest.mark.thorough
def test_coverage_of_all_ranks_is_put_together(tmp_path: Path) -> None:
    folder = written(tmp_path / "suite", "measured", MEASURED)
    (folder / "measured_code.py").write_text(CODE)
    printed = run(folder, "--cov=measured_code", "--cov-report=term-missing")
    assert re.search(r"measured_code.py +4 +0 +100%", printed), printed


@pytest.mark.thorough
def test_a_timeout_of_pytest_timeout_ends_the_test(tmp_path: Path) -> None:
    hang = COUNTING.replace("assert n != 1", "import time; time.sleep(1000)")
    folder = written(tmp_path / "suite", "hang", hang)
    printed = run(folder, "--timeout=8", "-k", "0")
    assert "Timeout" in printed
    assert "INTERNALERROR" not in printed, printed


CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--greeting", default="none")
    parser.addini("who", "whom to greet")

@pytest.fixture
def greeting(request):
    return request.config.getoption("greeting"), request.config.getini("who")
"""
CONFIGURED = """
import warnings
import pytest
import torch.distributed as dist

@pytest.mark.ranks(2)
def test_options(greeting):
    dist.barrier()
    assert greeting == ("hello", "ranks")

@pytest.mark.ranks(2)
def test_warning():
    warnings.warn("an error here")
"""


BROKEN_IN_RANKS = """
import multiprocessing

if multiprocessing.parent_process():
    raise OSError("no such disk")
"""


def test_options_and_settings_reach_the_ranks(tmp_path: Path) -> None:
    folder = written(tmp_path / "suite", "configured", CONFIGURED)
    (folder / "conftest.py").write_text(CONFTEST)
    settings = ("--greeting=hello", "-o", "who=ranks", "-W", "error::UserWarning")
    printed = run(folder, *settings)
    assert summary(printed) == {"test_options": "PASSED", "test_warning": "FAILED"}, printed
    assert "UserWarning: an error here" in printed


def test_a_rank_that_cannot_start_its_pytest_says_why(tmp_path: Path) -> None:
    folder = written(tmp_path / "suite", "counting", COUNTING)
    (folder / "conftest.py").write_text(BROKEN_IN_RANKS)
    printed = run(folder, "-k", "0")
    assert "could not run the test" in printed, printed
    assert "no such disk" in printed
