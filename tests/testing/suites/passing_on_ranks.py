"""Tests that pass: parameters, fixtures of every scope, classes, unlike numbers of ranks."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ddpcheck.testing.world import World

MADE: list[str] = []


@pytest.fixture(scope="module")
def made_once() -> Generator[list[str]]:
    MADE.append("made")
    yield MADE
    MADE.append("taken down")


@pytest.mark.ranks(2)
@pytest.mark.parametrize("value", [1.0, 2.5])
def test_sums(value: float, made_once: list[str]) -> None:
    tensor = torch.full((3,), value)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2 * value] * 3
    assert made_once == ["made"]


@pytest.mark.ranks(2)
class TestClass:
    """A marked class."""

    def test_rank(self, ddpcheck_world: World) -> None:
        told = [(-1, -1)] * 2
        dist.all_gather_object(told, (ddpcheck_world.rank, os.getpid()))
        assert [rank for rank, _ in told] == [0, 1]
        assert len({pid for _, pid in told}) == 2
        assert ddpcheck_world.group is dist.group.WORLD
        assert ddpcheck_world.device == torch.device("cpu")

    def test_folders(self, tmp_path: Path, ddpcheck_tmp_path: Path) -> None:
        (ddpcheck_tmp_path / f"{dist.get_rank()}").touch()
        (tmp_path / f"{dist.get_rank()}").touch()
        dist.barrier()
        assert sorted(each.name for each in ddpcheck_tmp_path.iterdir()) == ["0", "1"]
        assert [each.name for each in tmp_path.iterdir()] == [f"{dist.get_rank()}"]


@pytest.mark.ranks(3, backend="gloo")
def test_three(ddpcheck_world: World) -> None:
    assert dist.get_world_size() == ddpcheck_world.size == 3


@pytest.mark.ranks(2, group=False)
def test_code_that_joins_by_itself(ddpcheck_world: World) -> None:
    assert ddpcheck_world.group is None
    dist.init_process_group("gloo")
    dist.barrier()
    assert os.environ["RANK"] == str(ddpcheck_world.rank)


@pytest.mark.ranks(1)
def test_one_alone() -> None:
    assert dist.get_world_size() == 1


@pytest.mark.ranks(2)
def test_changes_its_process() -> None:
    os.environ["LEFT_BEHIND"] = "1"
    torch.set_default_dtype(torch.float64)


@pytest.mark.ranks(2)
def test_finds_nothing_left_behind() -> None:
    assert "LEFT_BEHIND" not in os.environ
    assert torch.get_default_dtype() == torch.float32


def test_on_no_rank() -> None:
    assert not dist.is_initialized()
    assert "RANK" not in os.environ
