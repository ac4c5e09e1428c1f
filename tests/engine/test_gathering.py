"""What the leader knows of ranks at the inquest, on a store in memory: no ranks, no ports."""

from typing import cast

import pytest
from measured_leader import Counting
from torch._C._distributed_c10d import HashStore

from ddpcheck.check import Stage
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Ended
from ddpcheck.engine.gathering import Gathering
from ddpcheck.engine.plan import Step
from ddpcheck.launch.stores import Store
from ddpcheck.measures.testimony import NO_SIGN, State, Testimony

DEADLINE_S = 5.0
LIVES = Testimony(state=State.BUSY, check="watch/script")


@pytest.mark.parametrize(
    ("entered", "told"), [("watch/script", "watch/script"), ("", "watch")], ids=["in", "before"]
)
def test_a_script_cut_off_before_its_next_beat_is_still_a_watched_one(
    entered: str, told: str
) -> None:
    channel = Channel(HashStore())
    channel.testify(0, LIVES)
    channel.beat(1, entered)
    gathering = Gathering(channel, [0, 1], DEADLINE_S, taken_over=False)
    found = gathering.hold_inquest({}, [], Step(Stage.WATCH, ()))
    assert found[1] == Testimony(state=State.SILENT, check=told, ended_by=NO_SIGN)
    assert found[1].is_watched


@pytest.mark.parametrize("check", ["", "network/watch", "watchful/check"])
def test_no_other_check_is_a_script(check: str) -> None:
    assert not Testimony(check=check).is_watched


def test_who_has_told_of_its_stage_is_given_no_check() -> None:
    channel = Channel(HashStore())
    channel.testify(0, Testimony())
    gathering = Gathering(channel, [0], DEADLINE_S, taken_over=False)
    told = {0: [Ended(Stage.WATCH.value, "", "", "", {})]}
    assert gathering.hold_inquest(told, [], Step(Stage.WATCH, ()))[0].check == ""


def test_an_inquest_does_not_ask_for_each_rank_by_itself() -> None:
    counting = Counting(HashStore())
    channel = Channel(cast("Store", counting))
    seats = range(512)
    for member in seats:
        channel.testify(member, LIVES)
    gathering = Gathering(channel, seats, DEADLINE_S, taken_over=False)
    before = counting.calls
    found = gathering.hold_inquest({}, [], Step(Stage.WATCH, ()))
    assert found == dict.fromkeys(seats, LIVES)
    assert counting.calls - before < 20


def test_what_was_kept_of_an_ended_script_stands_in_for_what_it_showed() -> None:
    channel = Channel(HashStore())
    shown, kept = ([Ended(name, "", "", "", {})] for name in ("shown", "kept"))
    channel.stand(0, shown)
    channel.stand(1, shown)
    channel.move(1)
    for seat in (0, 1):
        channel.tell(f"kept/{seat}", kept)
    gathering = Gathering(channel, [0, 1, 2], DEADLINE_S, taken_over=False)
    assert gathering.seen_so_far([0, 1, 2]) == {0: shown, 1: kept}
    assert gathering.shown_by([0, 1, 2]) == {0: shown}
