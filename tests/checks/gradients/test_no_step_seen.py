import pytest
from contexts import context_with

from ddpcheck.checks.gradients.no_step_seen import Facts, Observer, judge, summarize
from ddpcheck.finding import Severity

NONE = Facts(0, ended=True)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts(30), 1: Facts(30)}, id="all made steps"),
        pytest.param({0: Facts(0, raised=True), 1: Facts(0)}, id="it raised before"),
        pytest.param({0: Facts(3), 1: Facts(0, raised=True)}, id="one raised before"),
        pytest.param({0: Facts(0), 1: Facts(0)}, id="they stand still"),
        pytest.param({0: Facts(1), 1: Facts(0)}, id="they stand still around the first step"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "title"),
    [
        ({0: NONE, 1: NONE}, (0, 1), "no step of an optimizer was seen"),
        ({0: Facts(0), 1: NONE}, (1,), "no step of an optimizer was seen on 1 of 2 ranks"),
        ({0: Facts(9), 1: Facts(0)}, (1,), "no step of an optimizer was seen on 1 of 2 ranks"),
    ],
)
def test_a_training_that_nobody_saw_is_a_warning(
    facts: dict[int, Facts], ranks: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.title) == (Severity.WARNING, ranks, title)
    assert "torchrun" in finding.fix


def test_the_observer_counts() -> None:
    observer = Observer(context_with())
    assert observer.facts() == Facts(0)
    for step in range(3):
        observer.on_step(step)
    assert summarize({0: observer.facts()}) == "3 steps seen on each rank"
    observer.on_ended()
    assert observer.facts() == Facts(3, ended=True)
    observer.on_raise(3, ValueError())
    assert observer.facts() == Facts(3, raised=True)
