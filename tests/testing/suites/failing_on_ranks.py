"""Tests that fail, each in a way of its own."""

import os
import signal
import time
from typing import NoReturn

import pytest
import torch
import torch.distributed as dist


def rank() -> int:
    return dist.get_rank()


@pytest.mark.ranks(2)
def test_one_fails() -> None:
    print("written by", rank())
    values = {"a": 1, "b": rank()}
    if rank() == 1:
        assert values == {"a": 1, "b": 0}
    dist.all_reduce(torch.ones(1))


@pytest.mark.ranks(2)
def test_both_fail() -> None:
    assert dist.get_world_size() == 3


@pytest.mark.ranks(2)
def test_dies() -> None:
    if rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))


@pytest.mark.ranks(2)
def test_leaves() -> None:
    if rank() == 0:
        os._exit(7)


@pytest.mark.ranks(2)
def test_skipped_collective() -> None:
    if rank() == 0:
        dist.all_reduce(torch.ones(1))


@pytest.mark.ranks(2)
def test_unlike_collectives() -> None:
    if rank() == 0:
        dist.all_reduce(torch.ones(1))
    else:
        dist.barrier()


@pytest.mark.ranks(2, timeout=4)
def test_busy() -> None:
    if rank() == 0:
        time.sleep(1000)
    dist.barrier()


@pytest.mark.ranks(2)
def test_after_all_that() -> None:
    dist.barrier()


@pytest.mark.ranks(2)
def test_skips() -> NoReturn:
    pytest.skip("not on this machine")


@pytest.mark.ranks(2)
def test_one_skips() -> None:
    if rank():
        pytest.skip("not on this rank")


@pytest.mark.xfail(reason="known")
@pytest.mark.ranks(2)
def test_known() -> None:
    raise AssertionError


@pytest.mark.ranks(2)
def test_joins_twice() -> None:
    dist.init_process_group("gloo")


@pytest.fixture
def broken() -> NoReturn:
    raise LookupError("no such thing")


@pytest.mark.ranks(2)
@pytest.mark.usefixtures("broken")
def test_broken_fixture() -> None: ...


@pytest.mark.ranks(0)
def test_no_ranks() -> None: ...


@pytest.mark.ranks(2, retries=3)
def test_unknown_argument() -> None: ...


def test_fixture_without_ranks(ddpcheck_world: object) -> None: ...
