import pytest

from ddpcheck.checks.collectives.timeout_not_inherited import Facts, Made, judge
from ddpcheck.finding import Location, Severity

HERE = Location("/train.py", 12, "groups")
EVERY = (0, 1)


def facts(asked_s: float | None, *made: Made) -> dict[int, Facts]:
    return dict.fromkeys(EVERY, Facts(made, asked_s))


@pytest.mark.parametrize(
    ("asked_s", "own_s"),
    [
        (45.0, 45.0),
        (1800.0, 1800.0),
        (600.0, 1800.0),  # NCCL for all, gloo beside it, and not a word of any timeout
        (1800.0, 600.0),
        (None, 1800.0),
    ],
)
def test_silent(asked_s: float | None, own_s: float) -> None:
    assert judge(facts(asked_s, Made(EVERY, own_s, HERE, calls=3))) == []


@pytest.mark.parametrize("asked_s", [5.0, 7200.0])
def test_a_group_without_the_timeout_of_all_ranks(asked_s: float) -> None:
    (found,) = judge(facts(asked_s, Made(EVERY, 1800.0, HERE, calls=3)))
    assert (found.severity, found.ranks, found.location) == (Severity.WARNING, EVERY, HERE)
    assert f"1800 s, not after {asked_s:.0f} s" in found.title


def test_a_group_that_is_not_used_is_told_of_by_the_way() -> None:
    (found,) = judge(facts(5.0, Made(EVERY, 1800.0, HERE)))
    assert found.severity is Severity.INFO


def test_a_line_is_told_of_once_for_all_the_groups_it_makes() -> None:
    groups = [Made((0,), 1800.0, HERE), Made(EVERY, 1800.0, HERE)]
    assert len(judge(facts(5.0, *groups))) == 1
