"""Tests whose outcome is not that of each rank: subtests, expected failures, ends of a pytest."""

import unittest
import warnings
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = pytest.mark.ranks(2)


def rank() -> int:
    return dist.get_rank()


class TestParts(unittest.TestCase):
    def test_part_fails_on_one(self) -> None:
        for number in range(2):
            with self.subTest(number=number):
                assert (number, rank()) != (1, 1)
        dist.barrier()

    @unittest.expectedFailure
    def test_fails_on_one(self) -> None:
        assert rank()


def test_part_on_one_rank(subtests: Any) -> None:
    if rank() == 0:
        with subtests.test("of rank 0"):
            assert not rank()
    dist.barrier()


@pytest.mark.xfail(strict=True, raises=AssertionError)
def test_known_on_one() -> None:
    assert rank()
    dist.barrier()


@pytest.mark.xfail(strict=True)
def test_no_longer_known() -> None:
    dist.barrier()


def test_interrupted() -> None:
    if rank():
        raise KeyboardInterrupt
    dist.barrier()


def test_unsendable_property(record_property: Any) -> None:
    record_property("group", dist.group.WORLD)


@pytest.mark.ranks(2, backend="nccl", group=False)
@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are GPUs")
def test_no_gpus() -> None: ...


class OldSettingWarning(UserWarning):
    """Of the tests' own."""


def test_warns() -> None:
    warnings.warn("the same on both", stacklevel=1)
    warnings.warn(f"of rank {rank()}", OldSettingWarning, stacklevel=1)
