"""The loss is not a number: who had it first."""

from collections.abc import Mapping

import pytest

from ddpcheck.checks.gradients.not_finite import Facts, judge, summarize
from ddpcheck.finding import Severity

FINE = Facts(4)


@pytest.mark.parametrize("facts", [{0: FINE}, {0: FINE, 1: FINE}, dict.fromkeys(range(8), FINE)])
def test_finite_losses_are_silent(facts: Mapping[int, Facts]) -> None:
    assert judge(facts) == []
    assert summarize(facts) == "4 steps with a finite loss on every rank"


def test_steps_that_were_left_out_are_only_told() -> None:
    (finding,) = judge({0: FINE, 1: Facts(4, 2, recovers=True)})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    (finding,) = judge({0: Facts(4, 3), 1: Facts(4, 2, recovers=True)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))


@pytest.mark.parametrize(
    ("facts", "ranks", "step"),
    [
        pytest.param({0: Facts(4, 0)}, (0,), 0, id="the only rank"),
        pytest.param({0: FINE, 1: Facts(4, 2)}, (1,), 2, id="one of two"),
        pytest.param({0: Facts(4, 2), 1: Facts(4, 1)}, (1,), 1, id="rank 0 follows a step later"),
        pytest.param({r: Facts(4, 0) for r in range(8)}, tuple(range(8)), 0, id="all at once"),
        pytest.param({2: FINE, 5: Facts(1, 0), 7: FINE}, (5,), 0, id="some told nothing"),
    ],
)
def test_ranks_that_had_it_first_are_named(
    facts: Mapping[int, Facts], ranks: tuple[int, ...], step: int
) -> None:
    (finding,) = judge(facts)
    assert (finding.ranks, finding.severity) == (ranks, Severity.ERROR)
    assert f"step {step}" in finding.message
    is_of_all_from_the_start = step == 0 and len(ranks) == len(facts)
    assert ("to_empty" in finding.fix) is is_of_all_from_the_start
    assert summarize(facts) == ""
