from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.scaler_not_saved import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 80, "save")
MODEL = {"body.weight": 1}
OPTIMIZER = {"state": {0: {"step": 1}}, "param_groups": [{"lr": 0.1}]}
SCALER = {
    "scale": 65536.0,
    "growth_factor": 2.0,
    "backoff_factor": 0.5,
    "growth_interval": 2000,
    "_growth_tracker": 3,
}


def seen(*saved: Any, scales: bool = True) -> dict[int, Facts]:
    """Return what rank 0 tells of what it saved, and rank 1, which saved nothing."""
    observers = [Observer(context_with(watches=True)) for _ in range(2)]
    for observer in observers:
        if scales:
            observer.on_scaled()
    for value in saved:
        observers[0].on_saved("/runs/last.pt", value, LINE)
    return {rank: observer.facts() for rank, observer in enumerate(observers)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(seen(), id="nothing was saved"),
        pytest.param(seen(MODEL), id="weights alone"),
        pytest.param(seen({"model": MODEL, "opt": OPTIMIZER}, scales=False), id="no scaler"),
        pytest.param(seen({"model": MODEL, "opt": OPTIMIZER, "amp": SCALER}), id="in one file"),
        pytest.param(seen(OPTIMIZER, SCALER), id="in files of their own"),
        pytest.param(
            seen({"optimizer_states": [OPTIMIZER], "MixedPrecision": SCALER}), id="in lists"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    "value", [{"model": MODEL, "opt": OPTIMIZER}, OPTIMIZER, {"optimizers": [OPTIMIZER]}]
)
def test_an_optimizer_without_its_scaler_is_a_warning(value: Any) -> None:
    (finding,) = judge(seen(value))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, (0,), LINE)


def test_summary_and_skip() -> None:
    assert summarize(seen(scales=False)) == "no GradScaler took a step"
    with pytest.raises(Skip):
        Observer(context_with()).facts()
