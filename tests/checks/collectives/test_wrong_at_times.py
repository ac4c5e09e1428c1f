"""What comes and goes: see tests/collectives/test_tampering.py for real ranks."""

import pytest

from ddpcheck.checks.collectives.wrong_at_times import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.wrong_elements import Wrong

RIGHT = Facts("nccl", 120, 1_000_000)


def wrong(turn: int, kind: str = "all_reduce") -> Facts:
    first = Wrong(kind, "float32", "SUM", 16379, "contiguous", "blocking", 77, 8.0, 9.0, 1, turn)
    return Facts("nccl", 120, 1_000_000, {kind: 1}, (first,))


@pytest.mark.parametrize("world", [1, 2, 8])
def test_always_right_is_silent(world: int) -> None:
    assert judge(dict.fromkeys(range(world), RIGHT)) == []


def test_wrong_once_is_an_error_that_says_when() -> None:
    (finding,) = judge(dict.fromkeys(range(4), RIGHT) | {2: wrong(57)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert finding.title.endswith("wrong values on 1 of 4 ranks, first after 57 right ones")
    assert "rank 2: all_reduce, SUM of 16379 float32" in finding.message
    assert "element 77 is 9, expected 8" in finding.message
    assert "NCCL_P2P_DISABLE" in finding.fix


def test_the_first_of_several_is_told() -> None:
    (finding,) = judge({0: wrong(57), 1: wrong(30, "all_gather")})
    assert finding.ranks == (0, 1)
    assert "first after 30 right ones" in finding.title


def test_summary() -> None:
    assert summarize({0: RIGHT}) == "120 times the same, 1,000,000 elements compared on each rank"
