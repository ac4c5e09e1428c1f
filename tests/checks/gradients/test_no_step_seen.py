import pytest
from contexts import context_with
from msgspec.structs import replace

from ddpcheck.checks.gradients.no_step_seen import Facts, Observer, judge, summarize
from ddpcheck.finding import Severity

NONE = Facts(0, ended=True)
PAIR = Facts(9, prepared=True, group=(0, 1))


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
        (
            {0: Facts(9), 1: Facts(0, prepared=True)},
            (1,),
            "no step of an optimizer was seen on 1 of 2 ranks",
        ),
        # One that was to train, and one that is a member of the group.
        (
            {0: PAIR, 1: PAIR, 2: Facts(0, ended=True, prepared=True)},
            (2,),
            "no step of an optimizer was seen on 1 of 3 ranks",
        ),
        ({0: PAIR, 1: NONE}, (1,), "no step of an optimizer was seen on 1 of 2 ranks"),
    ],
)
def test_a_training_that_nobody_saw_is_a_warning(
    facts: dict[int, Facts], ranks: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.title) == (Severity.WARNING, ranks, title)
    assert "torchrun" in finding.fix


def test_who_evaluates_beside_those_that_train_is_only_told() -> None:
    (finding,) = judge({0: PAIR, 1: PAIR, 2: NONE})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (2,))
    assert "in no group of DDP that trains" in finding.message


def test_who_plays_for_a_learner_without_a_group_is_only_told() -> None:
    (finding,) = judge({0: Facts(9, prepared=True), 1: NONE, 2: NONE})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1, 2))


def test_a_worker_that_computes_gradients_for_who_has_the_optimizer_is_only_told() -> None:
    (finding,) = judge({0: replace(PAIR, group=()), 1: NONE})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))


def test_a_worker_may_have_made_the_servers_optimizer() -> None:
    worker = replace(NONE, prepared=True, works=True)
    (finding,) = judge({0: replace(PAIR, group=()), 1: worker})
    assert finding.severity is Severity.INFO


def test_who_has_an_optimizer_and_makes_no_step_is_no_worker_of_others() -> None:
    (finding,) = judge({0: replace(PAIR, group=()), 1: replace(NONE, prepared=True)})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))


def test_who_evaluates_is_told_apart_from_who_made_no_step() -> None:
    found = judge({0: PAIR, 1: NONE, 2: NONE})
    told = [(each.severity, each.ranks) for each in found]
    assert told == [(Severity.WARNING, (1,)), (Severity.INFO, (2,))]


def test_the_observer_counts() -> None:
    observer = Observer(context_with())
    assert observer.facts() == Facts(0)
    for step in range(3):
        observer.on_step(step)
    assert summarize({0: observer.facts()}) == "3 steps seen on each rank"
    observer.on_ended()
    assert observer.facts() == Facts(3, ended=True)
    observer.on_raise(3, ValueError())
    assert observer.facts() == Facts(3, raised=True, ended=True)
