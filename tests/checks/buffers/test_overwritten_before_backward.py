import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.buffers.overwritten_before_backward import (
    Facts,
    Observer,
    Overwrite,
    judge,
    summarize,
)
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 31, "critic_step")


def ranks(*steps: tuple[int, ...]) -> dict[int, Facts]:
    return {
        rank: Facts(tuple(Overwrite("head.scale", step, LINE) for step in own))
        for rank, own in enumerate(steps)
    }


def test_silent() -> None:
    assert judge(ranks((), ())) == []


def test_the_ranks_whose_gradients_are_wrong() -> None:
    (finding,) = judge(ranks((), (4, 5), (), (3,)))
    assert finding.ranks == (1, 3)
    assert finding.severity is Severity.WARNING
    assert finding.location == LINE
    assert "in step 3" in finding.message
    assert "head.scale" in finding.message


def test_what_is_looked_at() -> None:
    assert summarize(ranks((), (4, 5))) == "2 buffers were overwritten before their backward pass"
    with pytest.raises(Skip, match="no model was trained through Distributed"):
        Observer(context_with(watches=True)).facts()
