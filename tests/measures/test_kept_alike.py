"""What a script's own optimizer keeps alike, and what goes apart beside it."""

import pytest
from msgspec.structs import replace
from vector_sketches import sketched

from ddpcheck.checks.gradients.replicas_differ import Facts, judge
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.deeds import Deed, Kind
from ddpcheck.measures.kept_alike import kept_alike
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.unwrapped import Unwrapped

UNIT = 2.0**-23
MADE = Location("/train.py", 40, "main")
Ranks = dict[int, Facts]


def sketches(large: float, small: float) -> dict[str, Sketch]:
    """Return those of a weight that the optimizer gathers and a bias that it may forget."""
    return {"weight": sketched(large, 1.0), "bias": sketched(small)}


def rank(
    number: int,
    small: float,
    *,
    start: float = 3.0,
    large: float = 0.9,
    deeds: tuple[Deed, ...] = (),
) -> Facts:
    """Return what a rank tells whose gradients are its own before the step."""
    gradients = [sketches(0.1 + number, 0.2 + number)] * 2
    made = Unwrapped(names={"bias": "head.bias"}, made=MADE)
    before, after = sketches(1.0, start), sketches(large, small)
    return Facts(UNIT, before, gradients, after, 4, deeds=deeds, unwrapped=made)


def of_two(*small: float) -> Ranks:
    return {number: rank(number, each) for number, each in enumerate(small)}


def test_what_ends_alike_of_unlike_gradients_was_kept_so() -> None:
    assert kept_alike(of_two(2.9, 2.9)) == ["weight", "bias"]
    assert kept_alike(of_two(2.9, 2.8)) == ["weight"]
    alike: Ranks = dict.fromkeys((0, 1), rank(0, 2.9))
    assert kept_alike(alike) == []


def test_a_frozen_parameter_was_not_kept() -> None:
    told = {each: rank(each, 3.0, large=1.0) for each in range(2)}
    assert kept_alike(told) == []


def test_replicas_that_an_optimizer_keeps_alike_are_silent() -> None:
    assert judge(of_two(2.9, 2.9)) == []


def test_what_goes_apart_beside_it_is_named_with_the_optimizer() -> None:
    (finding,) = judge(of_two(2.9, 2.8))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert finding.title == "the script keeps weight alike on all ranks, and head.bias goes apart"
    assert "average its gradient" in finding.fix
    assert finding.location == MADE


def test_what_was_apart_from_the_start_is_told_so() -> None:
    told = {each: rank(each, 2.9 - each, start=3.0 - each) for each in range(2)}
    told[1] = replace(told[1], before=told[1].before | {"weight": sketched(7.0)})
    (finding,) = judge(told)
    assert finding.title == "parameters differ before the first step"
    assert "seed all ranks alike" in finding.fix


def test_a_table_of_each_ranks_own_beside_it_is_silent() -> None:
    told = {each: rank(each, 2.9 - each, start=3.0 - each) for each in range(2)}
    (finding,) = judge(told)
    assert finding.severity is Severity.INFO


def test_a_setting_that_differs_is_the_cause() -> None:
    rates = [(Deed(Kind.SET, 0, "lr", MADE, f"0.{each + 1}", was_made=True),) for each in range(2)]
    told = {each: rank(each, 2.9 - each, deeds=own) for each, own in enumerate(rates)}
    (finding,) = judge(told)
    assert (
        "lr is 0.1 on rank 0, 0.2 on rank 1, of the optimizer made at /train.py:40"
        in finding.message
    )
    assert "same settings" in finding.fix


@pytest.mark.parametrize("divided", ["parts", "spread"])
def test_ranks_that_have_parts_of_one_model_may_differ_in_them(divided: str) -> None:
    told = of_two(2.9, 2.8)
    parts = Unwrapped(parts=[(0, 1)]) if divided == "parts" else Unwrapped(spread=[(0, 1)])
    (finding,) = judge({each: replace(own, unwrapped=parts) for each, own in told.items()})
    assert finding.severity is Severity.INFO
