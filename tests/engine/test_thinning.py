"""Which facts stay where a report has no room for all: those that tell something."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.engine.thinning import RANK_BYTES, Told, thinned
from ddpcheck.report import FoldedFact, fold


def told(values: Sequence[Any], essential: Sequence[int] = ()) -> Told:
    texts = {rank: msgspec.json.encode(value) for rank, value in enumerate(values)}
    return Told(fold(texts), essential, len(values))


def kept_ranks(facts: Sequence[FoldedFact]) -> set[int]:
    return {rank for each in facts for rank in each.ranks}


BIG = told([{"text": f"{rank:0100d}"} for rank in range(1000)], essential=(0, 7, 990))
SMALL = told([{"rank": rank} for rank in range(10)])
EQUAL = told([{"text": "x" * 100}] * 1000)
ALL = {"a/big": BIG, "a/small": SMALL, "a/equal": EQUAL, "a/empty": told([])}


def test_what_fits_stays_whole() -> None:
    facts, left_out = thinned(ALL)
    assert left_out == {}
    assert {name: len(each) for name, each in facts.items()} == {
        "a/big": 1000,
        "a/small": 10,
        "a/equal": 1,
    }
    assert facts["a/small"][3] == FoldedFact((3,), {"rank": 3})


def test_only_the_largest_gives_way() -> None:
    facts, left_out = thinned(ALL, most_bytes=20_000)
    assert set(left_out) == {"a/big"}
    assert left_out["a/big"] == 1000 - len(facts["a/big"])
    assert 100 < len(facts["a/big"]) < 200
    assert (len(facts["a/small"]), len(facts["a/equal"])) == (10, 1)


def test_those_that_stand_out_stay_and_the_rest_is_from_all_over() -> None:
    facts, _ = thinned({"a/big": BIG}, most_bytes=20_000)
    ranks = kept_ranks(facts["a/big"])
    assert {0, 7, 990} <= ranks
    firsts = [fact.ranks[0] for fact in facts["a/big"]]
    assert firsts == sorted(firsts)
    ordered = sorted(ranks)
    assert max(b - a for a, b in itertools.pairwise(ordered)) <= 10


def test_the_essential_stay_though_there_is_no_room() -> None:
    facts, left_out = thinned({"a/big": BIG}, most_bytes=0)
    assert kept_ranks(facts["a/big"]) == {0, 7, 990}
    assert left_out == {"a/big": 997}


def test_what_most_ranks_have_stays_before_what_one_has() -> None:
    values = [{"odd": rank, "text": "x" * 90} for rank in range(500)] + [{"text": "y" * 90}] * 500
    facts, _ = thinned({"a/b": told(values)}, most_bytes=5_000)
    assert {"text": "y" * 90} in [fact.value for fact in facts["a/b"]]


@given(
    st.lists(st.lists(st.text("ab", max_size=30), max_size=30), max_size=6),
    st.integers(0, 3000),
)
def test_facts_take_no_more_than_they_may(of_checks: list[list[str]], most_bytes: int) -> None:
    every = {f"a/{at}": told(values) for at, values in enumerate(of_checks)}
    facts, left_out = thinned(every, most_bytes)
    size = sum(
        len(msgspec.json.encode(each.value)) + RANK_BYTES * len(each.ranks)
        for own in facts.values()
        for each in own
    )
    assert size <= most_bytes
    for at, values in enumerate(of_checks):
        name = f"a/{at}"
        kept = kept_ranks(facts.get(name, []))
        assert len(kept) + left_out.get(name, 0) == len(values)
        assert all(
            values[rank] == each.value for each in facts.get(name, []) for rank in each.ranks
        )


@pytest.mark.parametrize("most_bytes", [0, 10**9])
def test_facts_that_came_as_plain_values_are_thinned_alike(most_bytes: int) -> None:
    plain = Told(fold({0: {"nan": float("nan")}, 1: {}}), (), 2)
    facts, left_out = thinned({"a/b": plain}, most_bytes)
    assert len(facts["a/b"]) == (2 if most_bytes else 0)
    assert left_out == ({} if most_bytes else {"a/b": 2})
