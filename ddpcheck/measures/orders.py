"""In which order passes over a loader had their samples, and which of them nobody told an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Pass:
    """An iteration of a loader: the epoch that was told, and digests of its first batches.

    ``samples`` is the number of samples in them. ``before`` and ``until`` are how many optimizers had
    been made when it began, and when its last batch was trained on; None where none was.
    """

    told: int
    before: int
    batches: list[str] = field(default_factory=list[str])
    samples: int = 0
    until: int | None = None


def untold(passes: Sequence[Pass]) -> list[Pass]:
    """Return those that were trained on since another epoch was told, and had another order.

    A search for a learning rate goes over the loader once, with an optimizer of its own; then epoch
    0 has the same order.
    """
    trained = [each for each in passes if each.until is not None]
    is_search = len(trained) > 1 and trained[1].before > (trained[0].until or 0)
    same: list[Pass] = []
    for each in trained[is_search:]:
        if same and each.told != same[0].told and not are_alike(each.batches, same[0].batches):
            same.clear()
        same.append(each)
    return [each for each in same if each.told == same[0].told]


def are_alike(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two begin with the same batches, as far as the shorter one goes."""
    count = min(len(first), len(second))
    return first[:count] == second[:count]
