import pytest

from ddpcheck.checks.gradients.later_training_unseen import Facts, judge, summarize
from ddpcheck.finding import Location

LINE = Location("/train.py", 20, "run_fold")


@pytest.mark.parametrize("own", [Facts(4), Facts(4, 1, 1, LINE), Facts(4, 2, 1, LINE)])
def test_one_training_is_silent(own: Facts) -> None:
    assert judge({0: own, 1: own}) == []


def test_the_line_is_that_of_the_first_step_of_the_later_training() -> None:
    (finding,) = judge({0: Facts(4, 4, 0, LINE)})
    assert finding.location == LINE


def test_summary() -> None:
    assert summarize({0: Facts(4), 1: Facts(5)}) == "4 steps of one training were watched"
