"""A rank that failed may take its time to go: the others are its victims, and do not hang."""

from pathlib import Path

import own_pytest
import pytest

SUITE = """
import time

import pytest
import torch
import torch.distributed as dist

@pytest.fixture
def slow_to_go():
    yield
    time.sleep(6.5)  # more than the others have once it has gone

@pytest.mark.ranks(2)
def test_one_fails(slow_to_go):
    assert dist.get_rank() == 0
    dist.all_reduce(torch.ones(1))
"""


@pytest.mark.thorough
def test_who_waits_for_it_is_told_as_its_victim(tmp_path: Path) -> None:
    printed = own_pytest.run(own_pytest.written(tmp_path / "suite", "slow", SUITE))
    assert "(its peer had failed)" in printed
    assert "does not end" not in printed
