import pytest

from ddpcheck.checks.checkpoint.optimizer_not_saved import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity

LINE = Location("/train.py", 40, "save")


def ranks(*, remembers: bool = True, stored: int = 2, saved: int = 0) -> dict[int, Facts]:
    """Return two ranks that stored weights, of which so many saved the optimizer."""
    return {r: Facts(remembers, stored, saved_optimizer=r < saved, location=LINE) for r in (0, 1)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(saved=2), id="both saved"),
        pytest.param(ranks(saved=1), id="a rank saved it in another file"),
        pytest.param(ranks(stored=0), id="at the end, or never"),
        pytest.param(ranks(remembers=False), id="plain SGD has nothing to save"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_weights_alone_are_told_with_the_line() -> None:
    (finding,) = judge(ranks())
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert (finding.location, finding.ranks) == (LINE, (0, 1))
    assert finding.message.startswith("2 checkpoints of weights alone")


def test_summary() -> None:
    assert summarize(ranks()) == "2 distributed checkpoints while it trained"
