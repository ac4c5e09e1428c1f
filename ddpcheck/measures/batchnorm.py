"""What BatchNorm layers see, and how far ranks are apart in it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Layer(msgspec.Struct, frozen=True):
    """One BatchNorm layer: ``samples`` and ``values`` a channel in this rank's last batch.

    ``means`` and ``variances`` are that batch's, for the first channels.
    """

    name: str
    kind: str
    synchronized: bool
    custom: bool
    samples: int = 0
    values: int = 0
    means: tuple[float, ...] = ()
    variances: tuple[float, ...] = ()


def spread(ranks: Sequence[Layer]) -> float:
    """Return how far the ranks' means are apart, in deviations: the median over channels."""
    channels = zip(
        zip(*(layer.means for layer in ranks), strict=False),
        zip(*(layer.variances for layer in ranks), strict=False),
        strict=True,
    )
    apart = [
        (max(means) - min(means)) / (math.sqrt(sum(variances) / len(variances)) or 1.0)
        for means, variances in channels
    ]
    return sorted(apart)[len(apart) // 2] if apart else 0.0
