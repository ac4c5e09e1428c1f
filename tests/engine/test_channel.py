"""The channel, on a store in memory: no ranks, no ports."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from torch._C._distributed_c10d import HashStore, PrefixStore

from ddpcheck import jsontext
from ddpcheck.engine.announcements import ASSIGNMENT, STOP, Assignment, Decision, End
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Began, Ended, Measured, Present
from ddpcheck.launch.host import ENDED
from ddpcheck.measures.testimony import State, Testimony

SOON_S = 0.02
MEMBERS = 8
HERE = "boot/1"
GONE = Testimony(state=State.GONE, check="network/a", ended_by="SIGKILL", order=1)
SEATS = Assignment(
    run_id="ddpcheck-1", run_dir="/r", backend="gloo", seats=[0], deadline_s=1.0, complete=True
)
BUSY = Testimony(state=State.BUSY, check="network/a", stack="train.py")

NEWS: dict[str, Callable[[Channel], object]] = {
    "somebody comes": lambda channel: channel.arrive(present(0), 1, HERE),
    "somebody leads": lambda channel: channel.succeed("", 1),
    "the end": lambda channel: channel.announce(ENDED, End(0)),
    "a word of its own": lambda channel: channel.testify(1, BUSY),
    "a rank that cannot go on": lambda channel: channel.alarm(),
    "a rank that overran": lambda channel: channel.overrun(),
    "a rank that is gone": lambda channel: channel.tell_fate(1, GONE),
    "a signal": lambda channel: channel.ask_to_stop("SIGTERM"),
}
ALARMING = ("a rank that cannot go on", "a rank that overran", "a rank that is gone", "a signal")


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


def arrivals(channel: Channel, *machines: str) -> list[int]:
    return [channel.arrive(present(0), 100 + n, on) for n, on in enumerate(machines)]


def test_members_are_numbered_in_the_order_of_arrival(channel: Channel) -> None:
    assert channel.arrivals() == 0
    assert [channel.arrive(present(rank), rank, HERE) for rank in (3, 0, 3)] == [0, 1, 2]
    assert channel.arrivals() == 3
    told = channel.read(["member/0", "member/1", "member/2"])
    assert told == [[present(3)], [present(0)], [present(3)]]


def test_members_that_come_at_once_get_numbers_of_their_own(store: HashStore) -> None:
    members = at_once(lambda rank: Channel(store).arrive(present(rank), rank, HERE))
    assert sorted(members) == list(range(MEMBERS))
    told = Channel(store).read([f"member/{member}" for member in members])
    assert told == [[present(rank)] for rank in range(MEMBERS)]
    on_machine = Channel(store).members_on(HERE, MEMBERS)
    assert sorted(on_machine) == sorted((member, rank) for rank, member in enumerate(members))


def test_those_of_each_machine_are_counted(channel: Channel) -> None:
    assert arrivals(channel, "a", "b", "b", "a", "") == [0, 1, 2, 3, 4]
    assert [channel.arrivals_on(machine) for machine in ("a", "b", "", "c")] == [2, 2, 1, 0]


def test_those_of_one_machine_know_each_others_pids(channel: Channel) -> None:
    arrivals(channel, "a", "b", "b", "a")
    assert channel.members_on("a", 2) == [(0, 100), (3, 103)]
    assert channel.members_on("b", 2) == [(1, 101), (2, 102)]
    assert channel.members_on("b", 1) == [(1, 101)]
    assert channel.members_on("b", 0) == []


def test_who_has_a_place_but_has_not_yet_written_its_pid_is_left_out(channel: Channel) -> None:
    arrivals(channel, "a")
    assert channel.members_on("a", 3) == [(0, 100)]


def test_the_first_to_succeed_nobody_leads_and_no_other(channel: Channel) -> None:
    assert channel.leader() == ""
    assert channel.succeed("", 3)
    assert not channel.succeed("", 0)
    assert channel.leader() == "3"


def test_a_leader_is_succeeded_once(channel: Channel) -> None:
    channel.succeed("", 3)
    assert channel.succeed("3", 0)
    assert not channel.succeed("3", 1)
    assert not channel.succeed("33", 1)
    assert channel.leader() == "0"


@pytest.mark.parametrize("before", ["", "7"])
def test_of_those_that_would_lead_at_once_one_does(store: HashStore, before: str) -> None:
    if before:
        Channel(store).succeed("", int(before))
    assert at_once(lambda member: Channel(store).succeed(before, member)).count(True) == 1


def test_only_the_first_claim_of_a_key_counts(channel: Channel) -> None:
    assert channel.claim("reporting", "node0/3")
    assert not channel.claim("reporting", "node1/3")
    assert channel.claim("reporting", "node0/3")
    assert not channel.claim("reporting", "node0/33")
    assert channel.claim("another", "node1/3")


def test_every_beat_differs_from_the_one_before(channel: Channel) -> None:
    assert channel.last_beat(0) == ""
    beats: list[str] = []
    for check in ("", "", "network/a", "network/a", "a b"):
        channel.beat(0, check)
        beats.append(channel.last_beat(0))
    assert len(set(beats)) == len(beats)
    assert [beat.partition(" ")[2] for beat in beats] == ["", "", "network/a", "network/a", "a b"]


def test_a_beat_is_that_of_one_member(channel: Channel) -> None:
    channel.beat(1, "network/a")
    before = channel.last_beat(1)
    channel.beat(11, "network/b")
    assert channel.last_beat("1") == before
    assert channel.last_beat(0) == ""


def test_ends_and_exceptions_have_one_order(store: HashStore) -> None:
    numbers = at_once(lambda _: Channel(store).next_in_order())
    assert sorted(numbers) == list(range(1, MEMBERS + 1))


@pytest.mark.parametrize("what", NEWS)
def test_what_others_must_hear_is_news(channel: Channel, what: str) -> None:
    before = channel.news()
    assert channel.news() == before
    NEWS[what](channel)
    assert channel.news() != before


def test_beats_and_entries_are_no_news(channel: Channel) -> None:
    before = channel.news()
    channel.beat(0, "network/a")
    channel.tell("network/0", [Ended("network")])
    assert channel.news() == before


@pytest.mark.parametrize("what", NEWS)
def test_the_leader_is_alarmed_when_a_rank_cannot_go_on_and_else_is_not(
    channel: Channel, what: str
) -> None:
    assert channel.alarms() == 0
    NEWS[what](channel)
    assert channel.alarms() == (what in ALARMING)


def test_a_check_that_ends_after_all_alarms_nobody_any_more(channel: Channel) -> None:
    channel.overrun()
    channel.recover()
    assert channel.alarms() == 0


def test_a_signal_is_told_to_all(channel: Channel) -> None:
    channel.ask_to_stop("SIGTERM")
    assert channel.read_message(STOP, str) == "SIGTERM"


def test_of_a_member_that_nobody_spoke_of_nothing_is_known(channel: Channel) -> None:
    channel.testify(11, BUSY)
    assert channel.testimonies([1]).get(1) is None
    assert not channel.has_spoken(1)
    assert not channel.has_fate(1)


def test_what_a_neighbour_saw_first_counts(channel: Channel) -> None:
    channel.tell_fate(1, GONE)
    channel.tell_fate(1, BUSY)
    assert channel.testimonies([1]).get(1) == GONE
    assert channel.has_fate(1)
    assert not channel.has_spoken(1)


def test_of_neighbours_that_see_it_at_once_one_is_heard(store: HashStore) -> None:
    seen = [Testimony(state=State.GONE, order=order) for order in range(MEMBERS)]
    at_once(lambda member: Channel(store).tell_fate(1, seen[member]))
    assert Channel(store).testimonies([1]).get(1) in seen


@pytest.mark.parametrize("fate_comes_first", [False, True])
def test_a_members_own_word_outweighs_its_neighbours(
    channel: Channel, fate_comes_first: bool
) -> None:
    if fate_comes_first:
        channel.tell_fate(1, GONE)
    channel.testify(1, BUSY)
    channel.tell_fate(1, GONE)
    assert channel.has_spoken(1)
    assert channel.testimonies([1]).get(1) == BUSY


def test_a_text_is_heard_as_it_was_said(channel: Channel, store: HashStore) -> None:
    assert channel.heard("exit/100") == ""
    store.set("exit/100", "exit code 3")
    assert channel.heard("exit/100") == "exit code 3"


def sealed(check: str, facts: bytes) -> Measured:
    """Return what arrives of facts: their JSON, which nobody has looked at yet."""
    return Measured(check, facts, 0.1)


def test_entries_arrive_as_they_were_told(channel: Channel) -> None:
    began = Began("network/a", 1.5)
    channel.tell("network/0", [began, Measured("network/a", {"x": [1, None]}, 0.1)])
    channel.tell("network/1", [])
    channel.tell("network/2", [Ended("network")])
    assert channel.read(["network/2", "network/0", "network/1"]) == [
        [Ended("network")],
        [began, sealed("network/a", b'{"x":[1,null]}')],
        [],
    ]
    assert channel.read([]) == []


def test_what_a_training_can_contain_can_be_told(channel: Channel) -> None:
    channel.tell("a", [Measured("caf\udce9", {"loss": float("nan"), "name": "x\0\n"}, 0.1)])
    ((entry,),) = channel.read(["a"])
    assert entry == sealed(r"caf\udce9", rb'{"loss":"nan","name":"x\u0000\n"}')


def test_entries_of_many_ranks_are_large_and_arrive(channel: Channel) -> None:
    facts = {"sketches": ["0" * 64] * 20_000}
    channel.tell("a", [Measured("a", facts, 0.1)])
    assert channel.read(["a"]) == [[sealed("a", jsontext.encode(facts))]]


@pytest.mark.parametrize(
    "message",
    [
        Decision(go=True),
        Decision(go=False),
        End(4),
        End(4, (0, 2), "ddpcheck: ranks/lost: rank 1 | reports/x"),
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
    assert msgspec.json.encode(heard) == msgspec.json.encode(message)
    assert channel.read_message(ENDED, type(message)) == heard


def test_what_does_not_come_is_none_in_time(channel: Channel) -> None:
    started = time.monotonic()
    assert channel.hear("decision/launch", Decision, SOON_S) is None
    assert SOON_S <= time.monotonic() - started < 5.0


def test_an_announcement_that_comes_while_one_waits_is_heard(store: HashStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Channel(store).hear, ENDED, End, 30.0)
        Channel(store).announce(ENDED, End(1, [2]))
        assert waiting.result() == End(1, [2])


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


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        pytest.param({ASSIGNMENT: SEATS}, SEATS, id="the seats"),
        pytest.param({ENDED: End(4)}, None, id="the end"),
        pytest.param({ENDED: End(4), ASSIGNMENT: SEATS}, SEATS, id="both"),
    ],
)
def test_who_waits_for_the_seats_is_told_of_the_end(
    channel: Channel, said: dict[str, object], heard: Assignment | None
) -> None:
    for key, message in said.items():
        channel.announce(key, message)
    assert channel.hear_seats(30.0) == heard


def test_who_waits_for_the_seats_or_the_end_waits_no_longer_than_it_would(channel: Channel) -> None:
    started = time.monotonic()
    assert channel.hear_seats(SOON_S) is None
    assert SOON_S <= time.monotonic() - started < 5.0


def test_an_end_that_comes_while_one_waits_ends_the_waiting(store: HashStore) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Channel(store).hear_seats, 30.0)
        Channel(store).announce(ENDED, End(1))
        assert waiting.result() is None


def test_two_runs_on_one_store_do_not_hear_each_other(store: HashStore) -> None:
    first, second = (Channel(PrefixStore(f"ddpcheck/{attempt}", store)) for attempt in (0, 1))
    first.announce(ENDED, End(0))
    first.testify(0, BUSY)
    first.alarm()
    first.beat(0, "network/a")
    assert not second.has(ENDED)
    assert (second.testimonies([0]).get(0), second.alarms(), second.last_beat(0)) == (None, 0, "")
    assert (arrivals(first, HERE), arrivals(second, HERE)) == ([0], [0])
    assert first.succeed("", 1)
    assert second.succeed("", 0)
