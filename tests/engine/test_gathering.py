"""What the leader knows of ranks at the inquest, on a store in memory: no ranks, no ports."""

import pytest
from torch._C._distributed_c10d import HashStore

from ddpcheck.check import Stage
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Ended
from ddpcheck.engine.gathering import Gathering
from ddpcheck.engine.plan import Step
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
