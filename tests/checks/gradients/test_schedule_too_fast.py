from typing import Any

import msgspec
import pytest

from ddpcheck.checks.gradients.schedule_too_fast import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.schedule import Pace

LINE = Location("/train.py", 90, "train")
ONCE = Pace("CosineAnnealingLR", LINE, 75, 10, 10, 1, 1, batches=25, per_backward=True)
TWICE = msgspec.structs.replace(ONCE, fewest=2, most=2, per_backward=False)


def ranks(*paces: Pace, world: int = 2) -> dict[int, Facts]:
    return dict.fromkeys(range(world), Facts(world, paces))


def changed(pace: Pace, **changes: Any) -> Pace:
    return msgspec.structs.replace(pace, **changes)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(), id="no scheduler"),
        pytest.param(ranks(ONCE), id="once a step"),
        pytest.param(ranks(ONCE, ONCE), id="two of them"),
        pytest.param(ranks(changed(ONCE, fewest=0)), id="once an epoch"),
        pytest.param(ranks(changed(ONCE, idle=40, total=50)), id="its end was meant"),
        pytest.param(ranks(TWICE, world=8), id="neither ranks nor batches"),
        pytest.param(ranks(changed(TWICE, most=3)), id="now and then more"),
        pytest.param(ranks(changed(TWICE, steps=2)), id="hardly begun"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    "pace",
    [
        pytest.param(changed(TWICE, planned=150), id="planned for all ranks"),
        pytest.param(changed(TWICE, planned=0), id="no plan is known"),
        pytest.param(changed(TWICE, planned=100), id="it may be either"),
        pytest.param(
            changed(TWICE, per_backward=True, backwards=2.0, planned=75), id="planned in batches"
        ),
    ],
)
def test_what_may_be_meant_is_told_and_no_more(pace: Pace) -> None:
    (finding,) = judge(ranks(pace))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.INFO, (0, 1), LINE)
    assert "that is right where" in finding.message


def test_a_plan_of_one_ranks_batches_is_a_warning() -> None:
    (finding,) = judge(ranks(TWICE))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.title == "CosineAnnealingLR makes 2 steps for each of the optimizer's"
    assert "one for each rank, came after each of 10 steps" in finding.message
    assert "its plan of 75 is in the optimizer's steps" in finding.message
    assert "accelerate" in finding.fix


def test_a_training_that_goes_on_after_the_end_is_a_warning() -> None:
    over = changed(TWICE, planned=0, idle=12, total=30)
    (finding,) = judge(ranks(over))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "the optimizer made 12 of 30 after its plan was at its end" in finding.message


def test_a_step_for_each_backward_pass() -> None:
    own = changed(ONCE, fewest=4, most=6, backwards=4.2, idle=12, total=30)
    (finding,) = judge(ranks(own, world=8))
    assert finding.title == "CosineAnnealingLR makes 4 to 6 steps for each of the optimizer's"
    assert "one for each backward pass" in finding.message
    assert "accelerate" not in finding.fix


def test_each_scheduler_is_a_finding_of_its_own() -> None:
    other = changed(TWICE, scheduler="LinearLR")
    assert len(judge(ranks(TWICE, other, ONCE))) == 2


def test_summary() -> None:
    assert summarize(ranks(ONCE)) == "1 schedulers of the optimizer followed"


def test_a_plan_that_a_script_has_run_to_its_end_is_right() -> None:
    run = changed(TWICE, planned=21)
    assert judge(dict.fromkeys(range(2), Facts(2, (run,), ended=True))) == []
    (finding,) = judge(ranks(run))
    assert finding.severity is Severity.INFO
