"""Inputs and results of collectives that every dtype holds exactly.

Each input depends on the rank and on the position, so that a lost, doubled, shifted or
stale contribution changes the result. All values, partial sums and partial products are
whole numbers of at most 120: exact in uint8, bfloat16 (8 bits of precision, exact to 256)
and all wider dtypes, in whatever order a backend combines them.
"""

from __future__ import annotations

from functools import reduce

import torch

# Ranks that add something but zero (or one, for a product) at one position; which ranks they
# are rotates with the position, so that each rank counts somewhere.
SUM_RANKS = 8
PRODUCT_RANKS = 3
# Distinct values for the extremes.
EXTREME_RANKS = 61
HIGHEST_TERM = 13
BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
INPUTS = {"AVG": "sum", "SUM": "sum", "PREMUL_SUM": "sum", "PRODUCT": "product"}
# Twice a sum of at most 8 terms of 13 is 208: exact in bfloat16, whose whole numbers go to 256.
PREMUL_FACTOR = 2
# Blocks that are moved hold whole numbers below a prime, so that no two of as many ranks ever put
# the same in one position.
MOVED_PRIME = 113
# What no collective may leave in its output: no moved value, and no result of a reduction.
STALE = 127
# All values depend on the position through its remainders by 4, 13, 59 and the world size.
PERIOD = 4 * 13 * 59


def inputs_of(op: str) -> str:
    """Return the name of the inputs that this op is tried on: some ops share them."""
    return INPUTS.get(op, "extreme")


def contribution(op: str, rank: int, world_size: int, size: int) -> torch.Tensor:
    """Return what ``rank`` puts in: int64 [size]; it repeats after ``PERIOD * world_size``."""
    place = torch.arange(size)
    turn = (place + rank) % world_size
    if inputs_of(op) == "sum":
        return torch.where(turn < SUM_RANKS, _term(turn, place), 0)
    if op == "PRODUCT":
        return torch.where(turn < PRODUCT_RANKS, _factor(turn, place), 1)
    return _extreme(turn, place)


def expected(op: str, world_size: int, size: int) -> torch.Tensor:
    """Return the exact result: int64 [size], float64 for AVG; it repeats after ``PERIOD``."""
    place = torch.arange(size)
    if inputs_of(op) == "sum":
        terms = [_term(torch.tensor(k), place) for k in range(min(SUM_RANKS, world_size))]
        total = torch.stack(terms).sum(dim=0)
        if op == "AVG":
            return total.double() / world_size
        return total * PREMUL_FACTOR if op == "PREMUL_SUM" else total
    if op == "PRODUCT":
        factors = [_factor(torch.tensor(k), place) for k in range(min(PRODUCT_RANKS, world_size))]
        return torch.stack(factors).prod(dim=0)
    if op in BITWISE:
        return reduce(BITWISE[op], [_extreme(torch.tensor(k), place) for k in range(world_size)])
    highest = min(EXTREME_RANKS, world_size) - 1
    return _base(place) + (highest if op == "MAX" else 0)


def moved(rank: int, start: int, size: int) -> torch.Tensor:
    """Return a part of what ``rank`` puts into a collective that moves data: int64 [size].

    The part begins at ``start``; values are from 0 to 112, and repeat after ``MOVED_PRIME``.
    """
    lap, turn = divmod(rank, MOVED_PRIME)
    place = torch.arange(start, start + size)
    return (7 * place + 31 * turn + 3 * lap * place) % MOVED_PRIME


def tolerance(op: str, dtype: torch.dtype, world_size: int) -> float:
    """Return the greatest allowed error of one element: 0 but for some averages of floats.

    The sums are whole numbers of at most 7 bits, so scaling them, or their terms, by a power
    of two is exact. For any other world size W each of k = min(W, SUM_RANKS) scaled terms,
    the k sums and 1/W round by half a unit of a value of at most 13 k / W (Higham, Accuracy
    and Stability of Numerical Algorithms, 2002, sections 2.2 and 4.2).
    """
    if op != "AVG" or not dtype.is_floating_point or world_size & (world_size - 1) == 0:
        return 0.0
    terms = min(world_size, SUM_RANKS)
    return (2 * terms + 1) * torch.finfo(dtype).eps / 2 * HIGHEST_TERM * terms / world_size


def _term(turn: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return 1 + (5 * turn + 3 * place) % HIGHEST_TERM


def _factor(turn: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    return 2 + (turn + 3 * place) % 4


def _extreme(turn: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    # Ranks beyond hold a value in the middle: the extremes stay one rank's alone.
    return _base(place) + torch.where(turn < EXTREME_RANKS, turn, EXTREME_RANKS // 2)


def _base(place: torch.Tensor) -> torch.Tensor:
    return (7 * place) % 59
