from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.own_state_loaded import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/eval.py", 10, "load")


class Net:
    """A model, as far as its name goes."""


def reloaded(
    *, steps: int, changed: bool, captured: bool = True, called: str = ""
) -> dict[int, Facts]:
    """Return what two ranks tell of a model that is given its own tensors, so many steps later."""
    observer, net = Observer(context_with(watches=True)), Net()
    if captured:
        observer.on_captured(net, (3, 3))
    for step in range(steps):
        observer.on_step(step)
    if called:
        call: Any = SimpleNamespace(name=called)
        observer.on_called(call)
    observer.on_reloading(net, ("w", "b"), (4, 4) if changed else (3, 3), LINE)
    return dict.fromkeys(range(2), observer.facts())


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(reloaded(steps=0, changed=True), id="filled in place"),
        pytest.param(reloaded(steps=0, changed=False, called="broadcast"), id="by a collective"),
        pytest.param(reloaded(steps=0, changed=False, captured=False), id="asked for before"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
    assert summarize(facts) == "no model was given its own tensors"


@pytest.mark.parametrize(
    ("steps", "changed", "fix"), [(0, False, "strict=False"), (5, True, "copy.deepcopy")]
)
def test_a_model_that_is_given_its_own_tensors(steps: int, changed: bool, fix: str) -> None:
    (finding,) = judge(reloaded(steps=steps, changed=changed))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, (0, 1), LINE)
    assert "all 2 tensors of the state are the Net's own" in finding.message
    assert ("5 steps have changed since" in finding.message) == (steps == 5)
    assert fix in finding.fix


def test_a_barrier_fills_nothing() -> None:
    assert len(judge(reloaded(steps=0, changed=False, called="barrier"))) == 1


def test_without_a_script_it_is_a_skip() -> None:
    with pytest.raises(Skip):
        Observer(context_with()).facts()
