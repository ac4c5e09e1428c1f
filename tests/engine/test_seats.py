"""Seats: which rank each process is given, whatever ranks the processes claim."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck.engine.roll import seats_of


@pytest.mark.parametrize(
    ("claimed", "world", "seats"),
    [
        pytest.param([0], 1, [0], id="one rank"),
        pytest.param([0, 1], 2, [0, 1], id="two ranks"),
        pytest.param([1, 0], 2, [1, 0], id="rank 1 came first"),
        pytest.param([3, 1, 0, 2], 4, [3, 1, 0, 2], id="any order of arrival"),
        pytest.param([0, 2], 3, [0, 2], id="rank 1 is missing"),
        pytest.param([7], 8, [7], id="only the last rank came"),
        pytest.param([0, 0], 2, [0, 1], id="rank 0 twice"),
        pytest.param([1, 1], 2, [0, 1], id="rank 1 twice"),
        pytest.param([0, 2], 2, [0, 1], id="a rank that is WORLD_SIZE"),
        pytest.param([5, 0], 2, [1, 0], id="a rank beyond came first"),
        pytest.param([0, 1, 1, 2], 4, [0, 1, 2, 3], id="places follow the claims"),
        pytest.param([2, 1, 1, 0], 3, [3, 1, 2, 0], id="one process too many"),
        pytest.param([0, 0, 0], 1, [0, 1, 2], id="all claim to be alone"),
    ],
)
def test_a_seat_is_the_claimed_rank_unless_claims_clash(
    claimed: list[int], world: int, seats: list[int]
) -> None:
    assert seats_of(claimed, world) == seats


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(1, 20))
def test_no_two_processes_share_a_seat(claimed: list[int], world: int) -> None:
    seats = seats_of(claimed, world)
    assert len(set(seats)) == len(seats) == len(claimed)
    assert seats == claimed or sorted(seats) == list(range(len(claimed)))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(1, 20))
def test_seats_follow_the_claims(claimed: list[int], world: int) -> None:
    by_seat = [claim for _, claim in sorted(zip(seats_of(claimed, world), claimed, strict=True))]
    assert by_seat == sorted(claimed)


@pytest.mark.parametrize("world", [0, 2])
def test_nobody_has_no_seat(world: int) -> None:
    assert seats_of([], world) == []
