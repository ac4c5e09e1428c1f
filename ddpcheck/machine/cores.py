"""The processor cores that this process may run on."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ddpcheck.measures.words import runs


def own_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(core_count()))


def core_count() -> int:
    """Return how many cores the machine has, whoever may use them."""
    return os.cpu_count() or 1


def spans(cores: Iterable[int]) -> str:
    """Return numbers as taskset and the kernel write them, such as "0-3,8"."""
    return ",".join(runs(cores))


def in_spans(text: str) -> set[int]:
    """Return the numbers in a text such as "0-3,8"."""
    pairs = (part.partition("-") for part in text.split(",") if part)
    return {n for first, _, last in pairs for n in range(int(first), int(last or first) + 1)}
