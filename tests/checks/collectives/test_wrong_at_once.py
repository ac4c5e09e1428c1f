import pytest

from ddpcheck.checks.collectives.wrong_at_once import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.wrong_elements import Wrong

RIGHT = Facts("gloo", 16, 600_000)
LATE = Wrong("broadcast", "float32", "move", 1023, "contiguous", "async", 0, 5.0, 127.0, 1023, 4)


@pytest.mark.parametrize("world", [1, 2, 8])
def test_right_ones_are_silent(world: int) -> None:
    assert judge(dict.fromkeys(range(world), RIGHT)) == []


def test_a_wrong_one_is_an_error() -> None:
    bad = Facts("gloo", 16, 600_000, {"broadcast": 2}, (LATE,))
    (finding,) = judge({0: RIGHT, 1: bad})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert finding.title == (
        "broadcast gives wrong values on 1 of 2 ranks while several groups are at work"
    )
    assert "element 0 is 127, expected 5; 1023 elements of it are wrong" in finding.message


def test_ranks_that_are_wrong_in_several_groups_count_once() -> None:
    other = Wrong("all_gather", "float32", "move", 7, "contiguous", "async", 0, 5.0, 4.0, 1, 5)
    twice = Facts("gloo", 16, 600_000, {"broadcast": 2}, (LATE, LATE))
    both = Facts("gloo", 16, 600_000, {"all_gather": 1}, (other,))
    (finding,) = judge({0: RIGHT, 1: twice, 2: both, 3: both})
    assert finding.ranks == (1,)
    assert finding.message.startswith("rank 1: broadcast")


def test_summary() -> None:
    assert summarize({0: RIGHT}) == "16 collectives of several groups at once, 600,000 elements"
