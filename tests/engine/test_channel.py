"""The channel, on a store in memory: no ranks, no ports."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from torch._C._distributed_c10d import HashStore, PrefixStore

from ddpcheck.engine.channel import ENDED, Assignment, Channel, Decision, End
from ddpcheck.engine.entries import Began, Ended, Entry, Measured, Present, Stuck

SOON_S = 0.02
MEMBERS = 8


def present(rank: int) -> Present:
    return Present(
        rank=rank,
        local_rank=rank,
        world_size=MEMBERS,
        host="node0",
        pid=rank,
        gpus=0,
        backend="auto",
        launcher="torchrun",
        versions={},
    )


@pytest.fixture
def store() -> HashStore:
    return HashStore()


@pytest.fixture
def channel(store: HashStore) -> Channel:
    return Channel(store)


def at_once(act: Callable[[int], Any]) -> list[Any]:
    with ThreadPoolExecutor(MEMBERS) as pool:
        return list(pool.map(act, range(MEMBERS)))


def test_members_are_numbered_in_the_order_of_arrival(channel: Channel) -> None:
    assert [channel.arrive(present(rank)) for rank in (3, 0, 3)] == [0, 1, 2]
    told = channel.read(["member/0", "member/1", "member/2"])
    assert told == [[present(3)], [present(0)], [present(3)]]


def test_members_that_come_at_once_get_numbers_of_their_own(store: HashStore) -> None:
    numbers = at_once(lambda rank: Channel(store).arrive(present(rank)))
    assert sorted(numbers) == list(range(MEMBERS))
    told = Channel(store).read([f"member/{number}" for number in numbers])
    assert told == [[present(rank)] for rank in range(MEMBERS)]


def test_the_first_to_claim_leads_and_no_other(channel: Channel) -> None:
    assert channel.claim_lead(3)
    assert not channel.claim_lead(0)
    assert channel.claim_lead(3)
    assert not channel.claim_lead(33)


def test_of_those_that_claim_at_once_one_leads(store: HashStore) -> None:
    assert at_once(lambda member: Channel(store).claim_lead(member)).count(True) == 1


def test_entries_arrive_as_they_were_told(channel: Channel) -> None:
    entries: list[Entry] = [Began("network/a", 1.5), Measured("network/a", {"x": [1, None]}, 0.1)]
    channel.tell("network/0", entries)
    channel.tell("network/1", [])
    channel.tell("network/2", [Ended("network")])
    assert channel.read(["network/2", "network/0", "network/1"]) == [
        [Ended("network")],
        entries,
        [],
    ]
    assert channel.read([]) == []


def test_what_a_training_can_contain_can_be_told(channel: Channel) -> None:
    channel.tell("a", [Measured("caf\udce9", {"loss": float("nan"), "name": "x\0\n"}, 0.1)])
    ((entry,),) = channel.read(["a"])
    assert entry == Measured(r"caf\udce9", {"loss": "nan", "name": "x\0\n"}, 0.1)


def test_entries_of_many_ranks_are_large_and_arrive(channel: Channel) -> None:
    entries: list[Entry] = [Measured("a", {"sketches": ["0" * 64] * 20_000}, 0.1)]
    channel.tell("a", entries)
    assert channel.read(["a"]) == [entries]


@pytest.mark.parametrize(
    "message",
    [
        Decision(go=True),
        Decision(go=False),
        End(4),
        Assignment(
            run_id="ddpcheck-1",
            run_dir="/a b/ü",
            backend="gloo",
            seats=[1, 0],
            deadline_s=60.0,
            complete=True,
        ),
    ],
)
def test_an_announcement_is_heard(channel: Channel, message: msgspec.Struct) -> None:
    assert not channel.has(ENDED)
    channel.announce(ENDED, message)
    assert channel.has(ENDED)
    heard = channel.hear(ENDED, type(message), SOON_S)
    assert msgspec.to_builtins(heard) == msgspec.to_builtins(message)
    assert channel.read_message(ENDED, type(message)) == heard


def test_what_does_not_come_is_none_in_time(channel: Channel) -> None:
    started = time.monotonic()
    assert channel.hear("decision/launch", Decision, SOON_S) is None
    assert SOON_S <= time.monotonic() - started < 5.0


def test_an_announcement_that_comes_while_one_waits_is_heard(store: HashStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Channel(store).hear, ENDED, End, 30.0)
        Channel(store).announce(ENDED, End(1))
        assert waiting.result() == End(1)


def test_a_poll_tells_whether_all_keys_are_there(channel: Channel) -> None:
    channel.tell("a", [])
    assert channel.poll(["a"], 0.0)
    assert channel.poll([], 0.0)
    assert not channel.poll(["a", "b"], SOON_S)
    channel.tell("b", [])
    assert channel.poll(["a", "b"], 0.0)


def test_a_poll_looks_once_more_when_its_time_is_over(channel: Channel) -> None:
    started = time.monotonic()
    assert not channel.poll(["never"], SOON_S)
    assert SOON_S <= time.monotonic() - started < 5.0


def test_a_poll_ends_when_the_last_key_comes(store: HashStore) -> None:
    keys = [f"launch/{rank}" for rank in range(MEMBERS)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Channel(store).poll, keys, 30.0)
        at_once(lambda rank: Channel(store).tell(keys[rank], [Ended("launch")]))
        assert waiting.result()


def test_only_seats_whose_sentinel_spoke_are_stuck(channel: Channel) -> None:
    assert channel.stuck(range(3)) == {}
    channel.tell("stuck/2", [Stuck("network/a", "Thread 1")])
    channel.tell("stuck/7", [Stuck("network/a", "Thread 7")])
    assert channel.stuck(range(3)) == {2: Stuck("network/a", "Thread 1")}
    assert channel.stuck([]) == {}


def test_what_is_said_of_another_check_later_replaces_it(channel: Channel) -> None:
    channel.tell("stuck/0", [Stuck("network/a", "s")])
    channel.tell("stuck/0", [Stuck("network/b", "t")])
    assert channel.stuck([0]) == {0: Stuck("network/b", "t")}


def test_two_runs_on_one_store_do_not_hear_each_other(store: HashStore) -> None:
    first, second = (Channel(PrefixStore(f"ddpcheck/{attempt}", store)) for attempt in (0, 1))
    first.announce(ENDED, End(0))
    assert not second.has(ENDED)
    assert (first.arrive(present(0)), second.arrive(present(0))) == (0, 0)
    assert first.claim_lead(1)
    assert second.claim_lead(0)
