"""Calls on groups of a script's own: kept by group, told, and read from a file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.engine.blackbox import GROUPS_SUFFIX, BlackBox, groups_on_file
from ddpcheck.engine.groups import Groups
from ddpcheck.measures.testimony import BY_TORCH, MAKING, between
from ddpcheck.watch.calls import recorded_calls

Told = list[tuple[Any, ...]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def groups(tmp_path: Path, told: Told) -> Iterator[Groups]:
    """Return records that are filled by what a rank of two calls, on a group that sends nothing."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    kept = Groups(lambda *each: told.append(each), tmp_path / f"0{GROUPS_SUFFIX}")
    kept.install()
    try:
        with recorded_calls(BlackBox(None), kept):
            yield kept
    finally:
        kept.close()
        dist.destroy_process_group()


def test_each_group_has_its_own_numbers(groups: Groups, tmp_path: Path) -> None:
    pair: Any = dist.new_group([0, 1])
    alone: Any = dist.new_group([0])
    dist.all_reduce(torch.ones(3), group=pair)
    dist.barrier(group=alone)
    dist.all_reduce(torch.ones(4), group=pair)
    dist.all_reduce(torch.ones(5))
    by_name = {each.name: each for each in groups.told()}
    of_pair = by_name[str(pair.group_name)]
    assert of_pair.ranks == (0, 1)
    assert [(call.number, call.what) for call in of_pair.calls] == [
        (1, "all_reduce SUM float32[3]"),
        (2, "all_reduce SUM float32[4]"),
    ]
    assert [call.what for call in by_name[str(alone.group_name)].calls] == ["barrier"]
    assert [call.what for call in by_name[MAKING].calls] == ["new_group [0, 1]", "new_group [0]"]
    on_file = {each.name: each.calls for each in groups_on_file(tmp_path / "0.box")}
    assert on_file == {name: each.calls for name, each in by_name.items()}


def test_a_call_on_a_group_of_others_is_nobodys() -> None:
    box = BlackBox(None)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with recorded_calls(box):
            others: Any = dist.new_group([1])
            with pytest.warns(UserWarning, match="not in the group|does not belong"):
                dist.all_reduce(torch.ones(3), group=others)
    finally:
        dist.destroy_process_group()
    assert box.count == 0


def test_transfers_are_counted_by_pair(groups: Groups) -> None:
    dist.send(torch.ones(3), 1)
    dist.isend(torch.ones(3), 1)
    dist.recv(torch.ones(3), 1)
    counts = {each.name: len(each.calls) for each in groups.told()}
    assert counts == {between(0, 1): 2, between(1, 0): 1}


def test_what_torch_calls_is_kept_apart(groups: Groups) -> None:
    dist.all_gather_object([None, None], "of any size")
    assert all(each.name.endswith(BY_TORCH) for each in groups.told())
    assert groups.digests() == {}


def test_ranks_that_share_a_pass_are_told_once(groups: Groups, told: Told) -> None:
    class Summed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:  # noqa: ARG004
            dist.all_reduce(value.clone())
            return value.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:  # noqa: ARG004
            dist.all_reduce(gradients[0])
            return gradients[0]

    summed: Any = Summed
    value = torch.ones(3, requires_grad=True)
    dist.all_reduce(torch.ones(3))
    assert told == []
    result = summed.apply(value)
    assert told == [("spread", (0, 1))]
    result.sum().backward()
    summed.apply(value).sum().backward()
    assert told == [("spread", (0, 1)), ("joint", (0, 1))]
    del groups


def test_a_handle_that_is_thrown_away_is_told_with_its_line(groups: Groups, told: Told) -> None:
    reduce: Any = dist.all_reduce
    reduce(torch.ones(3), async_op=True)
    kept = reduce(torch.ones(3), async_op=True)
    reduce(torch.ones(3), async_op=True).wait()
    reduce(torch.ones(3))
    assert kept is not None
    assert [(event, what) for event, what, _ in told] == [("dropped", "all_reduce SUM float32[3]")]
    del groups


def test_a_file_that_is_not_there_or_garbled_tells_nothing(tmp_path: Path) -> None:
    assert groups_on_file(None) == ()
    assert groups_on_file(tmp_path / "0.box") == ()
    BlackBox(tmp_path / f"0{GROUPS_SUFFIX}").enter_call("no name", "")
    assert [each.calls for each in groups_on_file(tmp_path / "0.box")] == []
