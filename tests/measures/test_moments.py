"""Replicas are compared moment by moment, as ranks tell of them."""

from collections.abc import Sequence

import pytest

from ddpcheck.measures.moments import Apart, Comparison, Moments


def taken(world: int, *told: tuple[int, int, str]) -> list[Apart]:
    """Return what is found as ranks tell: a rank, its first moment, and a letter a moment."""
    comparison = Comparison()
    group = tuple(range(world))
    found = [comparison.take(rank, Moments(group, since, tuple(d))) for rank, since, d in told]
    return [each for each in found if each is not None]


@pytest.mark.parametrize(
    "told",
    [
        [(0, 0, "abc"), (1, 0, "abc")],
        [(0, 0, "abcdef"), (1, 0, "a"), (1, 1, "bc")],
        [(0, 0, "abc"), (0, 3, "x")],
        # GPUs of several models add up differently from the start.
        [(0, 0, "abc"), (1, 0, "xyz"), (0, 3, "d"), (1, 3, "w")],
    ],
)
def test_what_is_alike_or_not_known_yet_is_silent(told: Sequence[tuple[int, int, str]]) -> None:
    assert taken(2, *told) == []


def test_the_first_moment_that_differs_is_told_once() -> None:
    told = [(0, 0, "abcd"), (1, 0, "ab"), (1, 2, "xy"), (0, 4, "e"), (1, 4, "z")]
    assert taken(2, *told) == [Apart(1, (0, 1), 2)]


def test_the_rank_that_differs_from_most_is_named() -> None:
    assert taken(3, (2, 0, "ab"), (0, 0, "ax"), (1, 0, "ab")) == [Apart(0, (0,), 0)]


def test_groups_are_compared_apart() -> None:
    comparison = Comparison()
    for rank, digest in enumerate("aabb"):
        group = (0, 1) if rank < 2 else (2, 3)
        assert comparison.take(rank, Moments(group, 1, (digest,))) is None
