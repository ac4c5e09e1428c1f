import msgspec
import pytest

from ddpcheck.checks.gradients.forward_outside_no_sync import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("train.py", 60, "step")
IN_VAIN = Facts(4, 16, 12, LINE, 3 * 2**20, (0, 1))
SPARED = Facts(4, 4, 0, None, 3 * 2**20, (0, 1))


@pytest.mark.parametrize(
    "own", [SPARED, Facts(4, 16, 0, None, 8, (0, 1)), Facts(4, 16, 12, LINE, 8, (0,))]
)
def test_silent(own: Facts) -> None:
    assert judge(dict.fromkeys(range(2), own)) == []


def test_reductions_that_were_to_be_spared() -> None:
    (finding,) = judge({0: IN_VAIN, 1: IN_VAIN})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert finding.location == LINE
    assert "3 redundant all-reduces of 3 MiB a step" in finding.message
    assert summarize({0: IN_VAIN}) == "16 backward passes reduced gradients in 4 steps"


def test_before_the_first_step_there_is_something_to_tell() -> None:
    (finding,) = judge({0: msgspec.structs.replace(IN_VAIN, steps=0)})
    assert "12 redundant all-reduces" in finding.message
