"""How many questions the leader asks the store does not grow with the ranks. Counted, not timed."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from torch._C._distributed_c10d import HashStore

from ddpcheck.check import Stage
from ddpcheck.engine.channel import READ_AT_ONCE_COUNT, Channel
from ddpcheck.engine.entries import (
    Ended,
    Measured,
    pack,
    packed_for_store,
    unpacked_from_store,
)
from ddpcheck.engine.gathering import Gathering
from ddpcheck.engine.plan import Step
from ddpcheck.launch.stores import Store

DEADLINE_S = 5.0
FEW, MANY = 8, 4 * READ_AT_ONCE_COUNT
STEP = Step(Stage.NETWORK, ())


class Counting:
    """A store in memory that counts how often it is called."""

    def __init__(self) -> None:
        self._store = HashStore()
        self.calls = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.calls += 1
        return cast("Callable[..., Any]", getattr(self._store, name))


def of_ranks(count: int, late: int = 0) -> tuple[Counting, Channel]:
    store = Counting()
    channel = Channel(cast("Store", store))
    for member in range(count):
        channel.beat(member, "network/a")
    for member in range(count - late):
        channel.tell(f"network/{member}", [Ended("network")])
    store.calls = 0
    return store, channel


def calls_for_beats(count: int) -> int:
    store, channel = of_ranks(count)
    assert len(channel.last_beats(range(count))) == count
    return store.calls


def calls_to_hear(count: int) -> int:
    store, channel = of_ranks(count)
    gathering = Gathering(channel, range(count), DEADLINE_S, taken_over=False)
    told, garbled = gathering.hear(STEP)
    assert (len(told), garbled) == (count, [])
    return store.calls


def test_the_beats_of_all_take_two_calls() -> None:
    assert calls_for_beats(FEW) == calls_for_beats(MANY) == 2


def test_what_all_have_told_takes_a_call_for_many_ranks() -> None:
    assert calls_to_hear(MANY) - calls_to_hear(FEW) == MANY / READ_AT_ONCE_COUNT - 1


@pytest.mark.parametrize("late", [0, 1, 3, FEW])
def test_those_that_are_there_are_found_beside_those_that_are_not(late: int) -> None:
    _, channel = of_ranks(FEW, late)
    keys = [f"network/{member}" for member in range(FEW)]
    assert channel.those_there(keys) == keys[: FEW - late]
    assert channel.those_there([]) == []


def test_one_that_is_late_among_many_takes_a_few_calls() -> None:
    store, channel = of_ranks(MANY, late=1)
    channel.those_there([f"network/{member}" for member in range(MANY)])
    assert store.calls < 25


def test_long_words_travel_compressed() -> None:
    lines = pack([Measured("network/a", {"group": list(range(MANY))}, 0.1)])
    assert len(packed_for_store(lines)) < len(lines) / 2
    assert unpacked_from_store(packed_for_store(lines)) == lines
    store = HashStore()
    Channel(store).tell("network/0", [Measured("network/a", {"group": list(range(MANY))}, 0.1)])
    assert len(store.get("network/0")) < len(lines) / 2
    ((told,),) = Channel(store).read(["network/0"])
    assert isinstance(told, Measured)


@pytest.mark.parametrize("told", [b"", b"{}\n", b"x\x9c garbage", b"garbage"])
def test_what_was_not_compressed_stays_as_it_is(told: bytes) -> None:
    assert unpacked_from_store(told) == told
