"""Compare sketches of tensors between ranks, without torch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

PROJECTIONS = 4
# Of two ranks that disagree, the higher one is named: rank 0 is what people compare with.
TIE_OF_TWO = 2


class Sketch(msgspec.Struct, frozen=True, array_like=True):
    """What one rank tells of a tensor: see ``ddpcheck.target.sketch``."""

    digest: str
    norm: float
    projections: tuple[float, ...]


def relative_difference(one: Sketch, other: Sketch) -> float:
    """Return an estimate of ``|a - b| / max(|a|, |b|)``, from 0 to 2.

    0 exactly when the digests agree. Otherwise the root mean square of the differences of
    the projections, each of which has the variance ``|a - b|^2``.
    """
    if one.digest == other.digest:
        return 0.0
    if not (math.isfinite(one.norm) and math.isfinite(other.norm)):
        return 2.0
    scale = max(one.norm, other.norm)
    if not scale:
        return 0.0
    pairs = zip(one.projections, other.projections, strict=True)
    parts = [a / scale - b / scale for a, b in pairs]
    apart = math.hypot(*parts) / math.sqrt(len(parts))
    return min(2.0, max(apart, abs(one.norm - other.norm) / scale))


def are_alike(sketches: Sequence[Mapping[str, Sketch]], name: str) -> bool:
    """Return whether all have the same bits under a name."""
    return len({each[name].digest if name in each else "" for each in sketches}) == 1


def first_apart(digests: Mapping[int, Sequence[str]]) -> int | None:
    """Return the first place at which ranks' digests differ, None where they never do."""
    for place, values in enumerate(zip(*digests.values(), strict=False)):
        if len(set(values)) > 1:
            return place
    return None


def mean_projection(sketches: Sequence[Sketch]) -> tuple[float, ...]:
    """Return the projections of the mean of the tensors."""
    columns = zip(*(each.projections for each in sketches), strict=True)
    return tuple(sum(column) / len(sketches) for column in columns)


def minority(values: Mapping[int, str]) -> tuple[int, ...]:
    """Return the ranks whose value is not the most common one.

    In a tie the value of the lowest rank counts as the common one; when no two ranks agree,
    every rank is returned.
    """
    if not values:
        return ()
    counts = Counter(values[rank] for rank in sorted(values))
    common, number = counts.most_common(1)[0]
    if number == 1 and len(counts) > TIE_OF_TWO:
        return tuple(sorted(values))
    return tuple(rank for rank in sorted(values) if values[rank] != common)


class Difference(msgspec.Struct, frozen=True):
    """The first tensor that is not the same on all ranks.

    ``ranks`` are those that differ from the rest, ``relative`` estimates by how much, and
    ``differing`` counts all tensors that differ. A tensor that some rank lacks counts as 2.
    """

    name: str
    ranks: tuple[int, ...]
    relative: float
    differing: int


def first_difference(
    sketches: Mapping[int, Mapping[str, Sketch]], beyond: float = 0.0
) -> Difference | None:
    """Return the first tensor, in model order, whose bits are not the same on all ranks.

    ``beyond`` leaves out those that are no further apart than that.
    """
    unlike = _unlike(list(sketches.values()))
    if beyond:
        unlike = [name for name in unlike if _apart(sketches, name) > beyond]
    if not unlike:
        return None
    name = unlike[0]
    odd = minority(_digests(sketches, name))
    return Difference(name, odd, _apart(sketches, name), len(unlike))


def _unlike(sketches: Sequence[Mapping[str, Sketch]]) -> list[str]:
    """Return the names, in model order, under which not all have the same bits."""
    # Of thousands of ranks nearly all are like the first one, which is quickly seen.
    several = [*sketches[:1], *(own for own in sketches[1:] if own != sketches[0])]
    names = dict.fromkeys(name for own in several for name in own)
    return [name for name in names if len({_digest(own, name) for own in several}) > 1]


def _digest(own: Mapping[str, Sketch], name: str) -> str:
    return own[name].digest if name in own else ""


def _apart(sketches: Mapping[int, Mapping[str, Sketch]], name: str) -> float:
    """Return how far the others are from what is usual, at most; 2 where a rank lacks it."""
    odd = minority(_digests(sketches, name))
    held = {rank: own[name] for rank, own in sketches.items() if name in own}
    usual = held[next((rank for rank in sorted(held) if rank not in odd), min(held))]
    apart = max(relative_difference(usual, each) for each in held.values())
    return apart if len(held) == len(sketches) else 2.0


def _digests(sketches: Mapping[int, Mapping[str, Sketch]], name: str) -> dict[int, str]:
    return {rank: _digest(own, name) for rank, own in sketches.items()}
