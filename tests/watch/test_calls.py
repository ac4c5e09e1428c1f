"""Collectives are noted while they run, and no longer."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.groups import Groups
from ddpcheck.watch import meetings as meetings_of_calls
from ddpcheck.watch.calls import recorded_calls
from ddpcheck.watch.meetings import Called, Grouped, Meetings


def refuse(*_arguments: object, **_named: object) -> None:
    raise RuntimeError("Cannot use ReduceOp.BAND with Gloo")


def test_a_call_that_raises_is_not_waited_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks try what a backend may refuse: the rank has left that collective."""
    monkeypatch.setattr(dist, "all_reduce", refuse)
    box = BlackBox(None)
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with recorded_calls(box), pytest.raises(RuntimeError, match="BAND"):
            dist.all_reduce(torch.ones(3))
    finally:
        dist.destroy_process_group()
    (call,) = box.flight.calls
    assert (call.what, call.done) == ("all_reduce SUM float32[3]", True)


@pytest.fixture
def group() -> Iterator[None]:
    """Be rank 0 of two in a group that communicates nothing."""
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


def told_of(meetings_begin: bool = True) -> tuple[Meetings, list[Called]]:
    told: list[Called] = []

    def keep(_event: str, each: Called | Grouped) -> None:
        if isinstance(each, Called):
            told.append(each)

    meetings = Meetings(keep)
    if meetings_begin:
        meetings.begin()
    return meetings, told


@pytest.mark.usefixtures("group")
def test_a_call_is_told_of_once_it_has_returned_with_its_group() -> None:
    meetings, told = told_of()
    with recorded_calls(BlackBox(None), returned=meetings.told):
        dist.barrier()
        dist.all_reduce(torch.ones(3), async_op=True)
        dist.all_reduce(torch.ones(3), group=dist.new_group([0]))
    assert [(each.name, each.group, each.is_async) for each in told] == [
        ("barrier", (), False),
        ("all_reduce", (), True),
        ("all_reduce", (0,), False),
    ]
    assert all(each.location is None for each in told)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("name", "given", "named", "shown"),
    [
        ("broadcast", [1], {}, "broadcast float32[3] from rank 1"),
        ("broadcast", [], {"src": 0}, "broadcast float32[3] from rank 0"),
        ("broadcast", [], {"group_src": 1}, "broadcast float32[3] from rank 1"),
        ("reduce", [1], {}, "reduce SUM float32[3] to rank 1"),
        ("gather", [[torch.ones(3)] * 2], {}, "gather to rank 0"),
        ("scatter", [], {"src": 1}, "scatter from rank 1"),
    ],
)
def test_a_call_with_a_root_says_which(
    name: str, given: list[Any], named: dict[str, int], shown: str
) -> None:
    box = BlackBox(None)
    with recorded_calls(box):
        getattr(dist, name)(torch.ones(3), *given, **named)
    assert [call.what for call in box.flight.calls] == [shown]


@pytest.mark.usefixtures("group")
def test_what_torch_calls_in_a_collective_is_part_of_it() -> None:
    meetings, told = told_of()
    with recorded_calls(BlackBox(None), returned=meetings.told):
        dist.broadcast_object_list([None, 1], src=0)
    assert [each.name for each in told] == ["broadcast_object_list"]


@pytest.mark.usefixtures("group")
def test_a_long_call_has_its_line_and_one_after_long_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 0.1, 9.0, 20.0])
    monkeypatch.setattr(meetings_of_calls, "perf_counter", lambda: next(times))
    meetings, told = told_of()
    meetings.told("barrier", 0.0)
    meetings.told("barrier", 0.5)
    meetings.told("barrier", 19.5)
    assert [round(each.took_s, 1) for each in told] == [0.1, 8.5, 0.5]
    assert [round(each.before_s, 1) for each in told] == [0.0, 0.4, 10.5]
    assert [each.location is not None for each in told] == [False, True, True]


def test_calls_before_the_beginning_are_told_at_it() -> None:
    meetings, told = told_of(meetings_begin=False)
    meetings.told("barrier", 0.0)
    assert told == []
    meetings.begin()
    meetings.told("backward", 0.0)
    assert [each.name for each in told] == ["barrier", "backward"]


@pytest.mark.usefixtures("group")
def test_groups_that_a_script_makes_are_told_of_with_their_timeouts() -> None:
    told: list[Called | Grouped] = []
    meetings = Meetings(lambda _event, each: told.append(each))
    meetings.begin()
    with recorded_calls(BlackBox(None), Groups(Mock(), None), made=meetings.made):
        dist.new_group([0])
        dist.new_group([0, 1], timedelta(seconds=20))
        dist.new_subgroups(1, timeout=timedelta(seconds=30))
    made = [each for each in told if isinstance(each, Grouped)]
    assert [(each.ranks, each.is_timed) for each in made] == [
        ((0,), False),
        ((0, 1), True),
        ((0,), True),
    ]
    assert all(each.location and each.location.file == __file__ for each in made)


def test_what_the_observers_side_raises_is_none_of_the_scripts() -> None:
    def refuse_all(_event: str, _told: Called | Grouped) -> None:
        raise LookupError("told to nobody")

    meetings = Meetings(refuse_all)
    meetings.begin()
    meetings.told("barrier", 0.0)
