import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.global_batch_changed import Facts, Observer, judge, summarize
from ddpcheck.finding import Severity

RATES = (0.1,)
Before = tuple[int, int, tuple[float, ...]]


def ranks(world: int, samples: int, before: Before | None) -> dict[int, Facts]:
    """Return ranks of which the first knows of the run before."""
    own = {rank: Facts(world, samples, RATES) for rank in range(world)}
    return own | {0: Facts(world, samples, RATES, before)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(8, 16, None), id="no run before"),
        pytest.param(ranks(8, 2, (1, 16, RATES)), id="the same global batch"),
        pytest.param(ranks(9, 16, (8, 16, RATES)), id="a rank more"),
        pytest.param(ranks(8, 16, (1, 16, (0.0125,))), id="the rate was scaled"),
        pytest.param(ranks(8, 16, (1, 0, RATES)), id="nothing was trained then"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("world", "before", "was"), [(8, (1, 16, RATES), 16), (2, (8, 16, RATES), 128)]
)
def test_another_batch_at_the_same_rate_is_an_info(world: int, before: Before, was: int) -> None:
    (finding,) = judge(ranks(world, 16, before))
    assert (finding.severity, finding.ranks) == (Severity.INFO, tuple(range(world)))
    assert (
        finding.title
        == f"the global batch is {16 * world} instead of {was}, at the same learning rate"
    )
    assert "the learning rate is 0.1 as before" in finding.message


def test_summary_and_skip() -> None:
    assert summarize(ranks(2, 16, None)) == "32 samples a step, learning rate 0.1"
    with pytest.raises(Skip, match="ddpcheck watch"):
        Observer(context_with()).facts()
    with pytest.raises(Skip, match="no model"):
        Observer(context_with(watches=True)).facts()
