import pytest

from ddpcheck.checks.sharding.optimizer_without_gradients import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 41, "wrap_root")


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts(4, 5, 5), 1: Facts(4, 5, 5)}, id="all steps had gradients"),
        pytest.param({0: Facts(4, 5, 1), 1: Facts(4, 5, 1)}, id="only one had"),
        pytest.param({0: Facts(4, 1, 0), 1: Facts(4, 1, 0)}, id="a first step makes the state"),
        pytest.param({0: Facts(39, 1, 1, 36, ("head.weight",), LINE)}, id="one step tells little"),
        pytest.param({0: Facts(0, 5, 0), 1: Facts(0, 5, 0)}, id="a rank without parameters"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_an_optimizer_that_moves_nothing_is_an_error() -> None:
    (finding,) = judge({0: Facts(4, 5, 0), 1: Facts(4, 5, 0)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert "none of the optimizer's 4 parameters had a gradient in 5 steps" in finding.message
    assert "fully_shard" in finding.fix


def test_sharded_parameters_without_gradients_were_never_reduced_to() -> None:
    (finding,) = judge({0: Facts(4, 5, 0, 4), 1: Facts(4, 5, 0, 4)})
    assert "set_requires_gradient_sync(True)" in finding.fix
    assert "no gradient was reduced to the shards" in finding.message


def test_parameters_that_the_model_has_no_more_are_an_error_beside_those_that_move() -> None:
    own = Facts(39, 5, 5, 36, ("tok.weight", "head.weight", "head.bias"), LINE)
    (finding,) = judge({0: own, 1: own})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert (finding.location, finding.title[:2]) == (LINE, "3 ")
    assert "tok.weight, head.weight, head.bias" in finding.message
    assert "3 of 39 parameters never move" in finding.message


def test_an_optimizer_of_nothing_but_what_was_left_is_told_once() -> None:
    (finding,) = judge(dict.fromkeys((0, 1), Facts(4, 5, 0, 0, ("0.weight",), LINE)))
    assert "none of the optimizer's 4 parameters" in finding.message


def test_summary() -> None:
    assert summarize({0: Facts(4, 5, 3)}) == "3 of 5 steps had gradients"
