"""How often ranks try to meet: a thousand of them must not busy one host."""

from itertools import islice, pairwise
from types import SimpleNamespace

import pytest

from ddpcheck.errors import LaunchError
from ddpcheck.launch import meeting
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.meeting import LONGEST_RETRY_S, RETRY_S, meet, pauses_s
from ddpcheck.network.reach import Reach, Reached

RANKS = range(512)
REFUSED = Reach(Reached.REFUSED, "10.0.0.1:29500", "refused", 0.0)


def told(rank: int, count: int) -> list[float]:
    return list(islice(pauses_s(rank), count))


def test_the_first_try_follows_soon_and_the_later_ones_ever_less_often() -> None:
    for rank in RANKS:
        pauses = told(rank, 20)
        assert pauses == sorted(pauses)
        assert RETRY_S / 2 <= pauses[0] <= RETRY_S
        assert LONGEST_RETRY_S / 2 <= pauses[-1] <= LONGEST_RETRY_S


def test_ranks_do_not_try_together() -> None:
    longest = sorted(told(rank, 20)[-1] for rank in RANKS)
    gaps = [later - former for former, later in pairwise(longest)]
    assert 0 < min(gaps) <= max(gaps) < 4 * LONGEST_RETRY_S / 2 / len(RANKS)


@pytest.mark.parametrize("rank", [0, 1, 511])
def test_a_rank_whose_store_is_not_there_tries_until_the_deadline_and_not_too_often(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []
    now_s = 0.0

    def sleep(pause_s: float) -> None:
        nonlocal now_s
        now_s += pause_s

    def reach(*_: object) -> Reach:
        tries.append(now_s)
        return REFUSED

    monkeypatch.setattr(meeting, "time", SimpleNamespace(monotonic=lambda: now_s, sleep=sleep))
    monkeypatch.setattr(meeting, "reach", reach)
    who = Identity(rank, 0, 512, "node0", "10.0.0.1", 29500, "torchrun", True, "0")
    with pytest.raises(LaunchError, match="refused, for 30 of 30 s"):
        meet(who, 30.0, hosts=False)
    assert 30 <= len(tries) <= 65
    assert tries[-1] == pytest.approx(30.0), "the last look is not before the deadline"
    assert len([at for at in tries if at < 1.0]) >= 4
