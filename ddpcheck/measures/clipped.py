"""Gradients that were averaged over ranks and then clipped by a norm that ranks do not have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose, isfinite

from ddpcheck.measures.drift import Replica
from ddpcheck.measures.sketch import Sketch

# A product in float32 is rounded by 6e-8; sums of some thousand of them by less than this.
SCALE_RELATIVE = 1e-5
# Of one number any two gradients are alike but for a factor: several have to have the same one.
LEAST_ALIKE_COUNT = 2


def scaled_alike(told: Mapping[int, Replica]) -> set[str]:
    """Return the parameters whose gradients of the first step are alike but for a factor of each rank's.

    One that is no average has another norm on each rank, and so have all gradients that are clipped
    by it, averaged ones as well.
    """
    first, *others = [own.gradients[0] if own.gradients else {} for own in told.values()]
    factors = {
        name: _factors(own, [each.get(name) for each in others]) for name, own in first.items()
    }
    counts = Counter(_rounded(each) for each in factors.values() if each)
    common, count = counts.most_common(1)[0] if counts else ((), 0)
    if count < LEAST_ALIKE_COUNT:
        return set()
    return {name for name, each in factors.items() if each and _rounded(each) == common}


def _factors(one: Sketch, others: Sequence[Sketch | None]) -> tuple[float, ...]:
    """Return by what the other ranks' are larger, () where one differs in more than that, or is 0."""
    factors = [_factor(one, each) for each in others]
    return tuple(each for each in factors if each) if all(factors) else ()


def _factor(one: Sketch, other: Sketch | None) -> float:
    if other is None or not (
        one.norm and other.norm and isfinite(one.norm) and isfinite(other.norm)
    ):
        return 0.0
    pairs = zip(one.projections, other.projections, strict=True)
    is_same = all(
        isclose(mine / one.norm, theirs / other.norm, rel_tol=0.0, abs_tol=SCALE_RELATIVE)
        for mine, theirs in pairs
    )
    return other.norm / one.norm if is_same else 0.0


def _rounded(factors: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(each, 4) for each in factors)
