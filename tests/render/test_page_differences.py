"""What differs between ranks in their environments."""

from typing import Any

import pytest
from msgspec import structs
from page_samples import ODD_VALUES, measured
from pages import Page
from render_samples import healthy

from ddpcheck.render import render
from ddpcheck.render.page.differences import MOST_VALUES, Difference, differences
from ddpcheck.report import FoldedFact


def found(*facts: tuple[tuple[int, ...], Any], check: str = "environment/x") -> list[Difference]:
    folds = [FoldedFact(ranks, value) for ranks, value in facts]
    return differences(structs.replace(healthy(), facts={check: folds}))


def test_who_has_what_the_most_first_and_the_fewer_marked() -> None:
    (only,) = found(((3,), {"torch": "2.12"}), ((0, 1, 2), {"torch": "2.13"}))
    assert (only.name, only.check, only.left, only.is_amount) == (
        "torch",
        "environment/x",
        0,
        False,
    )
    assert [tuple(each) for each in only.values] == [
        ("2.13", "ranks 0-2", False),
        ("2.12", "rank 3", True),
    ]


def test_of_two_halves_none_is_odd() -> None:
    (only,) = found(((0,), {"a": 1}), ((1,), {"a": 2}))
    assert [each.is_odd for each in only.values] == [False, False]


def test_what_is_alike_or_is_who_a_rank_is_is_no_difference() -> None:
    assert found(((0, 1), {"torch": "2.13"})) == []
    assert found(((0,), {"host": "a", "torch": "2"}), ((1,), {"host": "b", "torch": "2"})) == []


def test_other_families_measure_and_are_left_out() -> None:
    assert found(((0,), {"a": 1}), ((1,), {"a": 2}), check="collectives/x") == []


def test_values_are_named_by_where_they_lie_and_may_be_missing() -> None:
    (only,) = found(((0, 1), {"values": {"NCCL_ALGO": "Ring"}}), ((2,), {"values": {}}))
    assert only.name == "values.NCCL_ALGO"
    assert [each.value for each in only.values] == ["Ring", "(not there)"]


def test_amounts_come_after_settings() -> None:
    listed = found(
        ((0,), {"open": 3, "torch": "a", "on": True}),
        ((1,), {"open": 4, "torch": "b", "on": False}),
    )
    assert [(each.name, each.is_amount) for each in listed] == [
        ("torch", False),
        ("on", False),
        ("open", True),
    ]


def test_what_several_checks_know_is_told_once() -> None:
    facts = {
        check: [FoldedFact((0,), {name: {"torch": "1"}}), FoldedFact((1,), {name: {"torch": "2"}})]
        for check, name in (
            ("environment/known-bad-versions", "known"),
            ("environment/version-mismatch", "versions"),
        )
    }
    (only,) = differences(structs.replace(healthy(), facts=facts))
    assert only.check == "environment/version-mismatch"


def test_many_values_are_cut_and_counted() -> None:
    (only,) = found(*(((rank,), {"x": f"v{rank}"}) for rank in range(20)))
    assert len(only.values) == MOST_VALUES
    assert only.left == 20 - MOST_VALUES


def test_long_values_that_differ_at_their_ends_alone_are_two() -> None:
    (only,) = found(((0,), {"PATH": "x" * 10**6 + "a"}), ((1,), {"PATH": "x" * 10**6 + "b"}))
    first, second = only.values
    assert first.value != second.value
    assert len(first.value) < 400
    assert "1000001 characters" in first.value


@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda value: ascii(value)[:9])
def test_facts_of_any_shape_can_be_compared(odd: Any) -> None:
    listed = found(((0,), odd), ((1,), {"torch": "2.13"}))
    assert {each.name for each in listed} <= {"", "torch"}


def test_the_page_shows_who_differs() -> None:
    shown = Page(render(measured(8), "html")).text_of("section", id="environment")
    assert (
        "versions.torch environment/version-mismatch 2.13.0 ranks 0-6 2.12.1 rank 7 fewer" in shown
    )
