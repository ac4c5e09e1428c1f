"""Running statistics of BatchNorm layers, and how far ranks are apart in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from ddpcheck.finding import Location

SMALLEST_VARIANCE = 1e-12


class Statistics(msgspec.Struct, frozen=True):
    """One layer's running means and variances, of its first channels."""

    name: str
    means: tuple[float, ...]
    variances: tuple[float, ...]


class Evaluation(msgspec.Struct, frozen=True):
    """The layers at the first forward pass of an evaluation, in model order, and its line."""

    layers: tuple[Statistics, ...]
    location: Location | None = None


class Apart(msgspec.Struct, frozen=True):
    """How far ranks are apart in one layer: the medians over its channels.

    ``deviations`` is the range of means in deviations, ``ratio`` the largest variance by the
    smallest.
    """

    name: str
    deviations: float
    ratio: float


def apart(ranks: Sequence[Statistics]) -> Apart:
    """Return how far the ranks are apart in one layer."""
    means = zip(*(each.means for each in ranks), strict=False)
    variances = zip(*(each.variances for each in ranks), strict=False)
    pairs = [
        (
            (max(m) - min(m)) / math.sqrt(max(sum(v) / len(v), SMALLEST_VARIANCE)),
            max(*v, SMALLEST_VARIANCE) / max(min(v), SMALLEST_VARIANCE),
        )
        for m, v in zip(means, variances, strict=False)
    ]
    return Apart(ranks[0].name, _median([d for d, _ in pairs]), _median([r for _, r in pairs]))


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0
