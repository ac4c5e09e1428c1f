"""Matrix products that are known exactly, whatever order or precision a library sums in.

With K terms of at most m * m each, and K * m * m at most 2 ** bits, every partial sum is a whole
number that the dtype holds: it is exact in any order, also where a library rounds partial sums to
the dtype, or float32 factors to TF32 (11 bits) or bfloat16 (8 bits).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ddpcheck.measures.wrong_values import WrongProduct

PRECISION_BITS = {torch.bfloat16: 8, torch.float16: 11, torch.float32: 24}
TERMS_COUNT = 256
TILE_COUNT = 128
# What each dtype holds, and each reduced precision that float32 may be computed in.
COMMON_BITS = 8
SUMS, PICKS = "sums of whole numbers", "picked numbers"


@dataclass(frozen=True)
class Factors:
    """Two factors of a product in float64: [TILE, TERMS] and [TERMS, TILE]."""

    name: str
    left: Tensor
    right: Tensor


def factors_of(dtype: torch.dtype, seed: int) -> tuple[Factors, Factors]:
    """Return a pair that tries the sums, and one that tries all bits of a factor."""
    random = torch.Generator().manual_seed(seed)
    largest = min(2**COMMON_BITS, int((2 ** PRECISION_BITS[dtype] / TERMS_COUNT) ** 0.5))
    left = _whole(largest, (TILE_COUNT, TERMS_COUNT), random)
    right = _whole(largest, (TERMS_COUNT, TILE_COUNT), random)
    # One term a sum: each column of the right factor picks one of the left, with a sign.
    picking = torch.zeros(TERMS_COUNT, TILE_COUNT, dtype=torch.float64)
    picks = torch.randperm(TERMS_COUNT, generator=random)[:TILE_COUNT]
    signs = torch.randint(0, 2, (TILE_COUNT,), generator=random).double() * 2 - 1
    picking[picks, torch.arange(TILE_COUNT)] = signs
    numbers = _whole(2 ** PRECISION_BITS[dtype] - 1, (TILE_COUNT, TERMS_COUNT), random)
    return Factors(SUMS, left, right), Factors(PICKS, numbers, picking)


def wrong_products(
    dtype: torch.dtype, device: str, tiles: int, runs: int, seed: int
) -> Iterator[WrongProduct]:
    """Yield the first wrong element of each wrong product of ``tiles`` times ``tiles`` tiles."""
    for factors in factors_of(dtype, seed):
        expected = (factors.left @ factors.right).to(device, dtype)
        left = factors.left.to(device, dtype).repeat(tiles, 1)
        right = factors.right.to(device, dtype).repeat(1, tiles)
        for _ in range(runs):
            yield from _first_wrong(factors.name, left @ right, expected)


def is_steady(dtype: torch.dtype, device: str, tiles: int, runs: int) -> bool:
    """Return whether a product of any numbers has the same bits in each of ``runs`` runs."""
    random = torch.Generator().manual_seed(0)
    tile = torch.randn(TILE_COUNT, TERMS_COUNT, generator=random).to(device, dtype)
    left, right = tile.repeat(tiles, 1), tile.T.repeat(1, tiles)
    first = left @ right
    return all(torch.equal(first, left @ right) for _ in range(runs - 1))


def _first_wrong(name: str, product: Tensor, expected: Tensor) -> Iterator[WrongProduct]:
    tiles = len(product) // TILE_COUNT
    got = product.view(tiles, TILE_COUNT, tiles, TILE_COUNT)
    bad = got != expected[:, None, :]
    elements = int(bad.sum())
    # Float32 that is computed in TF32 rounds nearly every picked number, which is no fault; the
    # sums show whether it computes well.
    reduced = name == PICKS and product.dtype is torch.float32 and elements > bad.numel() // 2
    if elements and not reduced:
        down, row, across, column = bad.nonzero()[0].tolist()
        yield WrongProduct(
            dtype=str(product.dtype).removeprefix("torch."),
            factors=name,
            row=down * TILE_COUNT + row,
            column=across * TILE_COUNT + column,
            expected=str(expected[row, column].item()),
            got=str(got[down, row, across, column].item()),
            elements=elements,
        )


def _whole(limit: int, shape: tuple[int, int], random: torch.Generator) -> Tensor:
    return torch.randint(-limit, limit + 1, shape, generator=random).double()
