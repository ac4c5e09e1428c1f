"""What pytest's own options about fixtures do with tests on ranks: no test runs."""

from pathlib import Path

import own_pytest
import pytest

SUITE = """
import pytest

@pytest.fixture
def thing(ddpcheck_world):
    raise AssertionError("made")

@pytest.mark.ranks(2)
def test_there(thing):
    raise AssertionError("ran")

def test_here():
    raise AssertionError("ran")
"""


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("--setup-plan", "SETUP    F thing (fixtures used: ddpcheck_world)"),
        pytest.param("--setup-only", "--setup-plan names them", marks=pytest.mark.thorough),
        pytest.param("--collect-only", "2 tests collected", marks=pytest.mark.thorough),
    ],
)
def test_nothing_runs(tmp_path: Path, option: str, told: str) -> None:
    printed = own_pytest.run(own_pytest.written(tmp_path / "suite", "options", SUITE), option)
    assert told in printed
    assert "AssertionError" not in printed
