"""Who exchanges with whom in which round, so that every rank is busy in each."""

from __future__ import annotations

# Up to so many ranks each meets all others. Among more it meets those whose number differs in
# one bit: one partner for each doubling, which still takes every rank across hosts and switches.
EVERYBODY_COUNT = 32


def partners(rank: int, world_size: int) -> list[int | None]:
    """Return a rank's partner in each round, or None where it has a rest.

    In a round everybody has at most one partner, and partners have each other. All pairs of a few
    ranks meet in n - 1 rounds (n, for an odd number), by the circle method of tournaments.
    """
    if world_size <= EVERYBODY_COUNT:
        return [_in_circle(rank, world_size, turn) for turn in range(_rounds(world_size))]
    bits = (world_size - 1).bit_length()
    across = (rank ^ (1 << bit) for bit in range(bits))
    return [other if other < world_size else None for other in across]


def _rounds(world_size: int) -> int:
    return world_size - 1 if world_size % 2 == 0 else world_size


def _in_circle(rank: int, world_size: int, turn: int) -> int | None:
    """Return the partner in one round: all but the last seat move one place on each round."""
    rounds = _rounds(world_size)
    if rank == rounds:  # the seat that stays, of an even number
        return next(each for each in range(rounds) if 2 * each % rounds == turn)
    other = (turn - rank) % rounds
    if other != rank:
        return other
    return rounds if world_size % 2 == 0 else None
