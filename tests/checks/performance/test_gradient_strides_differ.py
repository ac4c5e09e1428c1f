import pytest

from ddpcheck.checks.performance.gradient_strides_differ import Facts, Strided, judge, summarize
from ddpcheck.finding import Severity

# As in pytorch's issue 47163: a 1x1 convolution in channels_last.
CONV = Strided("conv.weight", (64, 1, 64, 64), (64, 1, 1, 1))


def test_silent() -> None:
    facts = {0: Facts(12, ()), 1: Facts(12, ())}
    assert judge(facts) == []
    assert summarize(facts) == "12 gradients compared"


@pytest.mark.parametrize(
    ("count", "words"), [(1, "(64, 1, 64, 64): each"), (6, "and 2 more: each is copied")]
)
def test_gradients_of_other_strides_are_an_info(count: int, words: str) -> None:
    (finding,) = judge({0: Facts(12, ()), 1: Facts(12, (CONV,) * count)})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    assert "conv.weight (64, 1, 1, 1) instead of (64, 1, 64, 64)" in finding.message
    assert words in finding.message
