"""Whether numbers look as if a generator had drawn them, each by itself: data made up to try a model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

LEAST_NUMBERS = 64
# Of n numbers that have nothing to do with each other, a number and the next one correlate by 1 / sqrt(n).
DEVIATIONS = 5.0
# Of words that are drawn alike often two are the same as seldom as there are many of them; of a text's,
# or of its letters, some times as often.
SAME_RATIO = 2.0


def look_drawn(batches: Sequence[Sequence[torch.Tensor]]) -> bool:
    """Return whether all that differs from batch to batch looks drawn; too few numbers do."""
    columns = zip(*batches, strict=False)
    changing = [each for each in columns if any(not torch.equal(each[0], other) for other in each)]
    return all(_looks_drawn(torch.cat([head.double() for head in each])) for each in changing)


def _looks_drawn(values: torch.Tensor) -> bool:
    count = len(values)
    centered = values - values.mean()
    spread = float(centered.square().sum())
    if count < LEAST_NUMBERS or not spread or not math.isfinite(spread):
        return True
    following = float((centered[1:] * centered[:-1]).sum()) / spread
    if abs(following) > DEVIATIONS / math.sqrt(count):
        return False
    is_whole = bool((values == values.round()).all())
    return not is_whole or _same_ratio(values) < SAME_RATIO


def _same_ratio(values: torch.Tensor) -> float:
    """Return how often two are the same, as a multiple of what it would be if all were as likely."""
    _, times = values.unique(return_counts=True)
    count, kinds = len(values), float(values.max() - values.min()) + 1
    return float((times * (times - 1)).sum()) / (count * (count - 1)) * kinds
