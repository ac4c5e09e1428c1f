"""Inputs and results of reductions that every dtype holds exactly.

Each input depends on the rank and on the position, so that a lost, doubled, shifted or
stale contribution changes the result. All values, partial sums and partial products are
whole numbers of at most 120: exact in uint8, bfloat16 (8 bits of precision, exact to 256)
and all wider dtypes, in whatever order a backend combines them.
"""

from __future__ import annotations

import torch

# Ranks that add something but zero (or one, for a product) at one position; which ranks they
# are rotates with the position, so that each rank counts somewhere.
SUM_RANKS = 8
PRODUCT_RANKS = 3
# Distinct values for the extremes.
EXTREME_RANKS = 61
HIGHEST_TERM = 13
# All values depend on the position through its remainders by 4, 13, 59 and the world size.
PERIOD = 4 * 13 * 59


def inputs_of(op: str) -> str:
    """Return the name of the inputs that this op is tried on: some ops share them."""
    return {"AVG": "sum", "SUM": "sum", "PRODUCT": "product"}.get(op, "extreme")


def contribution(op: str, rank: int, world_size: int, size: int) -> torch.Tensor:
    """Return what ``rank`` puts in: int64 [size]."""
    place = torch.arange(min(size, PERIOD * world_size))
    turn = (place + rank) % world_size
    if inputs_of(op) == "sum":
        values = torch.where(turn < SUM_RANKS, _term(turn, place), 0)
    elif op == "PRODUCT":
        values = torch.where(turn < PRODUCT_RANKS, _factor(turn, place), 1)
    else:
        # Ranks beyond hold a value in the middle: the extremes stay one rank's alone.
        values = _base(place) + torch.where(turn < EXTREME_RANKS, turn, EXTREME_RANKS // 2)
    return _repeated(values, size)


def expected(op: str, world_size: int, size: int) -> torch.Tensor:
    """Return the exact result: int64 [size]; float64 for AVG."""
    place = torch.arange(min(size, PERIOD))
    if inputs_of(op) == "sum":
        terms = [_term(torch.tensor(k), place) for k in range(min(SUM_RANKS, world_size))]
        total = _repeated(torch.stack(terms).sum(dim=0), size)
        return total.double() / world_size if op == "AVG" else total
    if op == "PRODUCT":
        factors = [_factor(torch.tensor(k), place) for k in range(min(PRODUCT_RANKS, world_size))]
        return _repeated(torch.stack(factors).prod(dim=0), size)
    highest = min(EXTREME_RANKS, world_size) - 1
    return _repeated(_base(place), size) + (highest if op == "MAX" else 0)


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


def _base(place: torch.Tensor) -> torch.Tensor:
    return (7 * place) % 59


def _repeated(values: torch.Tensor, size: int) -> torch.Tensor:
    return values.repeat(-(-size // len(values)))[:size]
