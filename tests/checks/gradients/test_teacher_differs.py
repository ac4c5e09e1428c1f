import pytest

from ddpcheck.checks.gradients.teacher_differs import Facts, Used, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 23, "consistency")
PAIR = (0, 1)


def used(
    *norms: str, calls: int = 30, name: str = "Teacher", group: tuple[int, ...] = PAIR
) -> Facts:
    return Facts(group, (Used(name, calls, norms, LINE),))


ALIKE = used("start", "a", "b", "c")


def test_one_that_is_updated_on_one_rank_alone_is_a_warning() -> None:
    (finding,) = judge({0: ALIKE, 1: used("start", "a", "a", "a")})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, PAIR)
    assert finding.location == LINE
    assert "from step 1 on, and was the same before" in finding.message


def test_one_that_was_made_apart_may_be_each_ranks_own() -> None:
    (finding,) = judge({0: ALIKE, 1: used("other", "d", "e", "f")})
    assert finding.severity is Severity.INFO
    assert "from the start" in finding.message


def average(*norms: str) -> Facts:
    return Facts(PAIR, (Used("Average", 2, norms, LINE, is_copy=True),))


def test_an_average_of_the_model_that_began_apart_is_a_warning() -> None:
    (finding,) = judge({0: average(*"sabcd"), 1: average(*"tefgh")})
    assert finding.severity is Severity.WARNING
    assert "from the start" in finding.message
    assert "meant" not in finding.message
    (finding,) = judge({0: average(*"sssss"), 1: average(*"ttttt")})
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ALIKE, id="alike"),
        pytest.param(used("start", "x", "x", "x", calls=0), id="rank 0 alone evaluates it"),
        pytest.param(used("start", "x", "x", "x", name="Reference"), id="another model"),
        pytest.param(used("start", "x", "x", "x", group=(1, 2)), id="of another group"),
        pytest.param(used("start", "a"), id="stopped in another step"),
    ],
)
def test_silent(other: Facts) -> None:
    assert judge({0: ALIKE, 1: other}) == []


def test_one_that_is_averaged_now_and_then_is_silent() -> None:
    assert judge({0: used("s", "a", "m", "c"), 1: used("s", "b", "m", "d")}) == []


def test_one_that_is_handed_out_after_some_steps_is_silent() -> None:
    assert judge({0: average(*"sabcd"), 1: average(*"tebcd")}) == []


def test_summary() -> None:
    assert summarize({0: ALIKE}) == "1 model called beside the wrapped one"
