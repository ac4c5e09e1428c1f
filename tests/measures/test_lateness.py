"""When it is clear who is slower, and when more turns are needed."""

from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.measures.lateness import error_of_median, is_clear, log_ratios, median_without

CPUS = {0: "cpu", 1: "cpu"}
QUIET = [8.0, 8.1, 8.05] * 7
LIMIT = 0.05


def shaken(factor: float, depth: float) -> list[float]:
    """Return times around a usual one, up to three times so much off it."""
    return [8.0 * factor * (1 + depth * (at % 7 - 3)) for at in range(21)]


@pytest.mark.parametrize("factor", [1.0, 1.1, 1.3])
def test_quiet_ranks_are_clear_either_way(factor: float) -> None:
    assert is_clear({0: QUIET, 1: [factor * each for each in QUIET]}, CPUS, LIMIT)


@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_where_noise_is_larger_than_what_is_sought_nothing_is_clear(factor: float) -> None:
    steady, noisy = shaken(1, 0), shaken(factor, 0.1)
    assert not is_clear({0: steady, 1: noisy}, CPUS, LIMIT)


def test_ranks_of_other_kinds_are_no_peers() -> None:
    assert is_clear({0: QUIET, 1: shaken(1, 0.1)}, {0: "a", 1: "b"}, LIMIT)


def test_each_rank_is_compared_with_the_others() -> None:
    ratios = log_ratios({0: [1.0], 1: [2.0], 2: [1.0]})
    assert ratios[1] == pytest.approx([0.693], abs=1e-3)
    assert ratios[0] == pytest.approx([-0.405], abs=1e-3)
    assert log_ratios({0: [1.0]}) == {}


def test_the_error_of_a_median_falls_with_the_count() -> None:
    few, many = error_of_median([0.0, 1.0] * 8), error_of_median([0.0, 1.0] * 32)
    assert many == pytest.approx(few / 2)
    assert error_of_median([1.0]) == float("inf")


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=30), st.data())
def test_the_median_of_the_others_is_that_of_a_list_without_one(
    values: list[float], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(values) - 1))
    others = [*values[:at], *values[at + 1 :]]
    assert median_without(sorted(values), values[at]) == pytest.approx(median(others))


def test_thousands_of_ranks_are_sorted_once_a_stretch() -> None:
    looked: list[int] = []

    class Told(tuple[float, ...]):
        __slots__ = ()

        def __getitem__(self, at: Any) -> Any:
            looked.append(at)
            return super().__getitem__(at)

    ranks = 500
    log_ratios({rank: Told([1.0 + rank, 2.0]) for rank in range(ranks)})
    assert len(looked) <= 6 * ranks
