"""What came of the groups along one axis of a device mesh."""

from __future__ import annotations

import msgspec

from ddpcheck.measures.wrong_elements import Compared


class Along(msgspec.Struct, frozen=True):
    """One axis on one rank: the ranks of its group, what it compared, and its speed.

    ``took_s`` are the seconds of an all-reduce of ``size_bytes`` in the median, while the other
    groups of the same axis did the same.
    """

    axis: str
    ranks: tuple[int, ...]
    alone: Compared
    at_once: Compared
    size_bytes: int
    took_s: float
