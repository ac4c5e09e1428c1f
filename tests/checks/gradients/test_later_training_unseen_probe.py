"""What the observer counts, and what is told of it."""

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.gradients.later_training_unseen import Facts, Observer, judge
from ddpcheck.finding import Severity


def seen(events: str) -> Facts:
    """Return the facts of steps of the watched training (w) and of others (o)."""
    observer = Observer(context_with(watches=True))
    for number, event in enumerate(events):
        if event == "w":
            observer.on_step(events[:number].count("w"))
        else:
            observer.on_other_step()
    return observer.facts()


@pytest.mark.parametrize(
    "events",
    [
        pytest.param("wwww", id="one training"),
        pytest.param("wowowo", id="two optimizers in turns"),
        pytest.param("wowowoo", id="the last turn is longer"),
        pytest.param("ooowooowooowoooooo", id="three steps of a critic for one of a generator"),
        pytest.param("oooww", id="another one before it"),
    ],
)
def test_silent(events: str) -> None:
    assert judge({0: seen(events), 1: seen(events)}) == []


@pytest.mark.parametrize(
    ("events", "steps", "others"),
    [
        pytest.param("wwwwoooo", "4 steps", "4 steps", id="another model, or fold"),
        pytest.param("wowowo" + "o" * 9, "3 steps", "10 steps", id="a phase of the second alone"),
        pytest.param("woo", "1 step", "2 steps", id="short ones"),
    ],
)
def test_what_came_after_the_first_training_is_told(events: str, steps: str, others: str) -> None:
    (finding,) = judge({0: seen(events), 1: seen(events)})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert finding.title.endswith(steps)
    assert finding.message.startswith(others)


def test_without_a_step_there_is_nothing_to_say() -> None:
    with pytest.raises(Skip, match="no optimizer"):
        Observer(context_with(watches=True)).facts()
