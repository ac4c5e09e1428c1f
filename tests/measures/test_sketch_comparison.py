import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.measures.sketch import (
    Difference,
    Sketch,
    first_difference,
    mean_projection,
    minority,
    relative_difference,
)

NAN, INF = float("nan"), float("inf")

numbers = st.floats(-1e100, 1e100)
sketches = st.builds(
    Sketch,
    st.sampled_from("abc"),
    st.floats(0, 1e100),
    st.tuples(numbers, numbers, numbers, numbers),
)


def scalar(value: float, digest: str = "") -> Sketch:
    """Return the sketch of one number, which its projections tell exactly."""
    return Sketch(digest or repr(value), abs(value), (value, -value, -value, value))


@pytest.mark.parametrize(
    ("one", "other", "relative"),
    [
        pytest.param(scalar(1.0), scalar(1.0), 0.0, id="equal"),
        pytest.param(scalar(NAN), scalar(NAN), 0.0, id="not a number, with equal bits"),
        pytest.param(scalar(INF), scalar(INF), 0.0, id="infinite, with equal bits"),
        pytest.param(scalar(1.0), scalar(2.0), 0.5, id="half"),
        pytest.param(scalar(-1.0), scalar(1.0), 2.0, id="opposite"),
        pytest.param(scalar(0.0), scalar(1e-30), 1.0, id="zero and little"),
        pytest.param(scalar(0.0), scalar(-0.0), 0.0, id="zeros of two signs"),
        pytest.param(scalar(1.0), scalar(1.0 + 2**-23), 2**-23, id="one unit of float32"),
        pytest.param(scalar(1e-30), scalar(2e-30), 0.5, id="small numbers"),
        pytest.param(scalar(1e100), scalar(2e100), 0.5, id="large numbers"),
        pytest.param(scalar(1.0), scalar(INF), 2.0, id="infinite on one"),
        pytest.param(scalar(0.0), scalar(INF), 2.0, id="zero and infinite"),
        pytest.param(scalar(-INF), scalar(INF), 2.0, id="two infinities"),
        pytest.param(scalar(1.0), scalar(NAN), 2.0, id="not a number on one"),
        pytest.param(scalar(INF), scalar(NAN), 2.0, id="infinite and not a number"),
        pytest.param(scalar(NAN, "a"), scalar(NAN, "b"), 2.0, id="not a number, other bits"),
        pytest.param(
            scalar(0.0),
            scalar(NAN),
            2.0,
            id="zero and not a number",
        ),
        pytest.param(
            scalar(1e200),
            scalar(2e200),
            0.5,
            id="squares that overflow",
        ),
    ],
)
def test_relative_difference(one: Sketch, other: Sketch, relative: float) -> None:
    assert relative_difference(one, other) == pytest.approx(relative, rel=1e-6)
    assert relative_difference(other, one) == pytest.approx(relative, rel=1e-6)


def test_norms_tell_apart_what_projections_miss() -> None:
    one, other = Sketch("a", 3.0, (0.0,) * 4), Sketch("b", 4.0, (0.0,) * 4)
    assert relative_difference(one, other) == 0.25


@given(sketches, sketches)
def test_a_relative_difference_is_symmetric_and_between_zero_and_two(
    one: Sketch, other: Sketch
) -> None:
    relative = relative_difference(one, other)
    assert 0.0 <= relative <= 2.0
    assert relative == relative_difference(other, one)
    assert relative == 0.0 or one.digest != other.digest


@given(sketches, sketches, st.floats(1e-10, 1e10))
def test_it_does_not_depend_on_the_unit(one: Sketch, other: Sketch, unit: float) -> None:
    def scaled(sketch: Sketch) -> Sketch:
        values = (unit * each for each in sketch.projections)
        return Sketch(sketch.digest, unit * sketch.norm, tuple(values))

    before = relative_difference(one, other)
    scale = max(one.norm, other.norm)
    if scale > 1e-100:
        assert relative_difference(scaled(one), scaled(other)) == pytest.approx(before, abs=1e-9)


def test_the_projection_of_a_mean_is_the_mean_of_projections() -> None:
    assert mean_projection([scalar(1.0)]) == (1.0, -1.0, -1.0, 1.0)
    assert mean_projection([scalar(1.0), scalar(5.0), scalar(0.0)]) == (2.0, -2.0, -2.0, 2.0)
    assert all(map(math.isnan, mean_projection([scalar(1.0), scalar(NAN)])))


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        pytest.param("a", (), id="one rank"),
        pytest.param("aaaaaaaa", (), id="all alike"),
        pytest.param("ab", (1,), id="of two, the higher one"),
        pytest.param("aab", (2,), id="the last of three"),
        pytest.param("baa", (0,), id="rank 0 of three"),
        pytest.param("abaaabaa", (1, 5), id="two of eight, alike"),
        pytest.param("abaaacaa", (1, 5), id="two of eight, each another"),
        pytest.param("aabb", (2, 3), id="a tie"),
        pytest.param("abab", (1, 3), id="a tie, in turn"),
        pytest.param("abbacc", (1, 2, 4, 5), id="a tie of three"),
        pytest.param("baac", (0, 3), id="two agree, two do not"),
        pytest.param("abc", (0, 1, 2), id="no two agree"),
        pytest.param("abcdefgh", tuple(range(8)), id="no two of eight agree"),
    ],
)
def test_minority(values: str, odd: tuple[int, ...]) -> None:
    assert minority(dict(enumerate(values))) == odd
    assert minority(dict(reversed(list(enumerate(values))))) == odd


def test_minority_names_ranks_not_places() -> None:
    assert minority({7: "a", 3: "a", 5: "b"}) == (5,)
    assert minority({9: "a", 4: "b"}) == (9,)


def test_nobody_is_in_the_minority_of_nobody() -> None:
    assert minority({}) == ()


@given(st.dictionaries(st.integers(0, 20), st.sampled_from("abc"), min_size=1))
def test_whoever_is_not_in_the_minority_agrees(values: Mapping[int, str]) -> None:
    odd = minority(values)
    rest = {values[rank] for rank in values if rank not in odd}
    assert len(rest) <= 1
    assert rest.isdisjoint(values[rank] for rank in odd)
    assert (odd == ()) == (len(set(values.values())) == 1)


Told = dict[str, Sketch]

A, B, C = scalar(1.0), scalar(2.0), scalar(4.0)


@pytest.mark.parametrize(
    ("told", "found"),
    [
        pytest.param([{"w": A}], None, id="one rank"),
        pytest.param([{"w": A, "b": B}] * 8, None, id="all alike"),
        pytest.param([{}, {}], None, id="nothing told"),
        pytest.param([{"w": A}, {"w": B}], Difference("w", (1,), 0.5, 1), id="one of two"),
        pytest.param(
            [{"w": A, "b": A}, {"w": A, "b": B}, {"w": A, "b": A}],
            Difference("b", (1,), 0.5, 1),
            id="the second tensor",
        ),
        pytest.param(
            [{"w": A, "b": A, "c": A}, {"w": A, "b": B, "c": B}],
            Difference("b", (1,), 0.5, 2),
            id="the first of two",
        ),
        pytest.param(
            [{"w": B}, {"w": A}, {"w": A}], Difference("w", (0,), 0.5, 1), id="rank 0 is odd"
        ),
        pytest.param(
            [{"w": A}, {"w": B}, {"w": C}, {"w": A}],
            Difference("w", (1, 2), 0.75, 1),
            id="the farthest counts",
        ),
        pytest.param(
            [{"w": A}, {"w": B}, {"w": C}], Difference("w", (0, 1, 2), 0.75, 1), id="no two agree"
        ),
        pytest.param(
            [{"w": A}, {}, {"w": A}], Difference("w", (1,), 2.0, 1), id="one rank lacks it"
        ),
        pytest.param([{}, {"w": A}, {}], Difference("w", (1,), 2.0, 1), id="one rank alone has it"),
        pytest.param(
            [{"w": A}, {"w": A, "x": A}], Difference("x", (1,), 2.0, 1), id="another model"
        ),
        pytest.param(
            [{"w": A}, {"v": A}], Difference("w", (1,), 2.0, 2), id="other names for the same"
        ),
    ],
)
def test_first_difference(told: list[Told], found: Difference | None) -> None:
    assert first_difference(dict(enumerate(told))) == found


def test_first_difference_keeps_the_order_of_the_model() -> None:
    told = {0: {"z": A, "a": A, "m": A}, 1: {"z": A, "a": B, "m": B}}
    difference = first_difference(told)
    assert difference is not None
    assert difference.name == "a"


def test_first_difference_names_ranks_not_places() -> None:
    told = {5: {"w": B}, 2: {"w": A}, 9: {"w": A}}
    assert first_difference(told) == Difference("w", (5,), 0.5, 1)


def test_equal_values_with_other_bits_still_differ() -> None:
    told = {0: {"w": scalar(0.0)}, 1: {"w": scalar(-0.0)}}
    assert first_difference(told) == Difference("w", (1,), 0.0, 1)
