import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.launch.never_restarted import VARIABLE, Facts, Observer, judge, summarize
from ddpcheck.finding import Severity


def seen(told: str, step: int, error: Exception | None) -> dict[int, Facts]:
    observer = Observer(context_with(watches=True, environ={VARIABLE: told} if told else {}))
    if error is not None:
        observer.on_raise(step, error)
    return dict.fromkeys(range(2), observer.facts())


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(seen("0", 9, None), id="nothing went wrong"),
        pytest.param(seen("3", 9, OSError("gone")), id="it starts them again"),
        pytest.param(seen("", 9, OSError("gone")), id="no torchrun"),
        pytest.param(seen("0", 0, ImportError("no module")), id="wrong from the start"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_training_that_is_over_for_good_is_an_info() -> None:
    (finding,) = judge(seen("0", 9, OSError("gone")))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "OSError ended the training after 9 steps" in finding.message
    assert "--max-restarts=3" in finding.fix


def test_summary_and_skip() -> None:
    assert summarize(seen("3", 0, None)) == "failed ranks are started again 3 times"
    with pytest.raises(Skip):
        Observer(context_with()).facts()
