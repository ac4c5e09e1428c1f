"""Who takes its time, to go or to tell why it failed, does not hang: it is at work."""

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

@pytest.mark.ranks({ranks})
def test_one_fails(slow_to_go):
    assert dist.get_rank() == 0
    dist.all_reduce(torch.ones(1))
"""


# Of four, each waits for its neighbours in gloo's ring, of which some are victims that go as slowly.
@pytest.mark.thorough
@pytest.mark.parametrize("ranks", [2, 4])
def test_who_waits_for_it_is_told_as_its_victim(ranks: int, tmp_path: Path) -> None:
    suite = SUITE.replace("{ranks}", str(ranks))
    printed = own_pytest.run(own_pytest.written(tmp_path / "suite", "slow", suite))
    assert "(its peer had failed)" in printed
    assert "does not end" not in printed


AT_WORK = """
import time

import pytest
import torch
import torch.distributed as dist

@pytest.mark.ranks(2)
def test_one_fails():
    assert dist.get_rank() == 0
    time.sleep(9)  # more than one has that waits for who has gone
    dist.all_reduce(torch.ones(1))
"""


def test_who_is_at_work_when_its_peer_has_gone_is_waited_for(tmp_path: Path) -> None:
    printed = own_pytest.run(own_pytest.written(tmp_path / "suite", "at_work", AT_WORK))
    assert "(its peer had failed)" in printed
    assert "does not end" not in printed


KEPT = """
import pytest
import torch
import torch.distributed as dist

kept = []

@pytest.mark.ranks(2)
def test_one_fails():
    kept.append(dist.group.WORLD)  # so its connections stay when the group is destroyed
    assert dist.get_rank() == 0
    dist.all_reduce(torch.ones(1))
"""


def test_a_rank_that_failed_leaves_its_connections_to_nobody(tmp_path: Path) -> None:
    printed = own_pytest.run(own_pytest.written(tmp_path / "suite", "kept", KEPT))
    assert "(its peer had failed)" in printed
    assert "does not end" not in printed
