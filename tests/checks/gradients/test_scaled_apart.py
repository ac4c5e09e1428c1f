import pytest

from ddpcheck.checks.gradients.scaled_apart import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

STEP = Location("/train.py", 40, "train")
PAIR = (0, 1)


def ranks(*factors: tuple[float, ...], group: tuple[int, ...] = PAIR) -> dict[int, Facts]:
    return {rank: Facts(own, group, STEP) for rank, own in enumerate(factors)}


def test_other_factors_in_several_steps_are_a_warning_at_the_step() -> None:
    facts = ranks((1.0, 0.5, 0.2), (1.0, 0.6, 0.3))
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, PAIR, STEP)
    assert "from 0.5 to 0.6 in the first of 2 such steps" in finding.message
    assert summarize(facts) == "gradients of 3 steps compared between backward and the step"


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks((0.5, 0.2), (0.5, 0.2)), id="clipped by one norm"),
        pytest.param(ranks((1.0, 1.0), (1.0, 1.0)), id="not scaled"),
        pytest.param(ranks((0.5, 0.201), (0.501, 0.2)), id="rounded"),
        pytest.param(ranks((0.5, 0.2), (0.5, 0.3)), id="one step"),
        pytest.param(ranks((0.0, 0.0), (0.5, 0.3)), id="no one factor: by value, or by layer"),
        pytest.param(ranks((0.5, 0.2), (0.6, 0.3), group=(0, 1, 2)), id="one told nothing"),
        pytest.param(ranks((0.5, 0.2), group=(0,)), id="one rank"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
