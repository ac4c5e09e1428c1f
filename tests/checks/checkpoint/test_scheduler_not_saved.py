from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.scheduler_not_saved import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 80, "save")
OPTIMIZER = {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1}]}
# What torch.optim.lr_scheduler.StepLR(...).state_dict() has.
SCHEDULER = {"step_size": 5, "gamma": 0.1, "base_lrs": [0.1], "last_epoch": 3, "_step_count": 4}


class StepLR:
    """A scheduler, as far as its name goes."""


def seen(*saved: Any, schedules: bool = True) -> dict[int, Facts]:
    """Return what rank 0 tells of what it saved, and rank 1, which saved nothing."""
    observers = [Observer(context_with(watches=True)) for _ in range(2)]
    for observer in observers:
        if schedules:
            observer.on_scheduled(StepLR(), None)
    for value in saved:
        observers[0].on_saved("/runs/last.pt", value, LINE)
    return {rank: observer.facts() for rank, observer in enumerate(observers)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(seen(), id="nothing was saved"),
        pytest.param(seen({"model": {"weight": 1}}), id="weights alone"),
        pytest.param(seen({"opt": OPTIMIZER}, schedules=False), id="no scheduler"),
        pytest.param(seen({"opt": OPTIMIZER, "sched": SCHEDULER}), id="in one file"),
        pytest.param(seen(OPTIMIZER, [SCHEDULER]), id="in files of their own"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("value", [OPTIMIZER, {"opt": OPTIMIZER, "epoch": 3}, [{"o": OPTIMIZER}]])
def test_an_optimizer_without_its_scheduler_is_an_info(value: Any) -> None:
    (finding,) = judge(seen(value))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.INFO, (0,), LINE)
    assert "that of StepLR was not" in finding.message


def test_distributed_checkpoints_are_looked_at_as_well() -> None:
    observer = Observer(context_with(watches=True))
    observer.on_scheduled(StepLR(), None)
    observer.on_stored({"opt": OPTIMIZER}, LINE)
    (finding,) = judge({0: observer.facts()})
    assert finding.location == LINE
    observer.on_stored({"sched": SCHEDULER}, LINE)
    assert judge({0: observer.facts()}) == []


def test_summary_and_skip() -> None:
    assert summarize(seen(schedules=False)) == "no scheduler made a step"
    with pytest.raises(Skip):
        Observer(context_with()).facts()
