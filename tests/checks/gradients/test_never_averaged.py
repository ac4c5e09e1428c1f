from typing import Any

import pytest
from vector_sketches import sketched

from ddpcheck.checks.gradients.never_averaged import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.sketch import Sketch

LINE = Location("/gan.py", 19, "main")
PAIR = (0, 1)
START, END, OTHER = ({"g": sketched(own)} for own in (1.0, 2.0, 2.5))


def told(
    *after: dict[str, Sketch], before: tuple[dict[str, Sketch], ...] = (START, START), **own: Any
) -> dict[int, Facts]:
    """Return two ranks whose generator starts and ends like that."""
    facts: dict[str, Any] = {
        "group": PAIR,
        "is_wrapped": True,
        "steps": 9,
        "names": {"g": "net.0.weight"},
    } | own
    return {
        rank: Facts(before=begin, after=end, norms=("start", repr(end)), lines={"g": LINE}, **facts)
        for rank, (begin, end) in enumerate(zip(before, after, strict=True))
    }


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_model_that_goes_apart_beside_the_wrapped_one_is_named(is_wrapped: bool) -> None:
    (finding,) = judge(told(END, OTHER, is_wrapped=is_wrapped))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, PAIR, LINE)
    assert finding.title == "each rank trains a net.0.weight of its own"
    assert "alike at first" in finding.message


def test_a_probe_that_has_no_part_in_the_training_is_only_told() -> None:
    (finding,) = judge(told(END, OTHER, linked=False))
    assert finding.severity is Severity.INFO
    assert "may be meant" in finding.message


def test_one_that_was_made_apart_is_only_told() -> None:
    (finding,) = judge(told(END, OTHER, before=(START, END)))
    assert finding.severity is Severity.INFO
    assert "and did so at first" in finding.message


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(told(END, END), id="averaged in some other way"),
        pytest.param(told(END, OTHER, group=()), id="nobody averages anything"),
        pytest.param(
            told(END, OTHER, before=(START, END), is_wrapped=False),
            id="a head of each rank's own beside what is averaged by hand",
        ),
        pytest.param({0: told(END, OTHER)[0]}, id="a rank of the group has told nothing"),
        pytest.param(
            told(END, OTHER, group=PAIR) | {1: told(END, OTHER, steps=3)[1]},
            id="one stopped in another step",
        ),
    ],
)
def test_what_is_no_fault(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_summary() -> None:
    assert summarize(told(END, END)) == "1 parameters of other optimizers compared over 9 steps"
