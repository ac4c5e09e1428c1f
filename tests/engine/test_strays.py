from collections.abc import Mapping

import pytest

from ddpcheck.engine import strays
from ddpcheck.engine.strays import KEPT_S, LOOK_EVERY_S, Strays
from ddpcheck.measures.rank_process import RankProcess

OTHER = RankProcess(77, 1, "127.0.0.1:31071")
ANOTHER = RankProcess(78, 2, "127.0.0.1:31072")


class Host:
    """The processes of a host: who is there, how often that was asked, and the time, in seconds."""

    def __init__(self) -> None:
        self.there: list[RankProcess] = []
        self.asked = 0
        self.now_s = 100.0

    def ranks_elsewhere(self, _: Mapping[str, str]) -> list[RankProcess]:
        self.asked += 1
        return self.there

    def wait(self, seen: Strays, seconds: float) -> None:
        self.now_s += seconds
        seen.look(seconds)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()
    monkeypatch.setattr(strays, "ranks_elsewhere", made.ranks_elsewhere)
    return made


def test_who_left_a_moment_ago_is_told_and_who_is_still_there(host: Host) -> None:
    seen = Strays({}, lambda: host.now_s)
    host.there = [OTHER, ANOTHER]
    host.wait(seen, LOOK_EVERY_S)
    host.there = [ANOTHER]
    host.wait(seen, LOOK_EVERY_S)
    assert seen.seen() == (OTHER, ANOTHER)


def test_who_waited_as_long_as_this_rank_is_told_whenever_it_left(host: Host) -> None:
    seen = Strays({}, lambda: host.now_s)
    host.there = [OTHER]
    host.wait(seen, LOOK_EVERY_S)
    host.wait(seen, LOOK_EVERY_S)
    host.there = []
    host.wait(seen, 10 * KEPT_S)
    assert seen.seen() == (OTHER,)


def test_who_was_seen_once_and_left_long_before_is_not(host: Host) -> None:
    seen = Strays({}, lambda: host.now_s)
    host.there = [OTHER]
    host.wait(seen, LOOK_EVERY_S)
    host.there = []
    host.wait(seen, KEPT_S + 0.1)
    assert seen.seen() == ()


def test_where_all_come_at_once_no_process_is_read(host: Host) -> None:
    seen = Strays({}, lambda: host.now_s)
    host.wait(seen, LOOK_EVERY_S / 2)
    assert seen.seen() == ()
    host.wait(seen, LOOK_EVERY_S)
    assert host.asked == 0
