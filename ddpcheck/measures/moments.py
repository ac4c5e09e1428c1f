"""Replicas that must be alike after each step, compared while their training goes on."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from ddpcheck.measures.drift import odd_ones
from ddpcheck.measures.sketch import minority

Group = tuple[int, ...]


class Moments(msgspec.Struct, frozen=True):
    """Digests of one rank's replica, from the moment ``since`` on; 0 is before the first step.

    ``group`` are the ranks whose replicas are to be alike.
    """

    group: Group
    since: int
    digests: tuple[str, ...]


class Apart(NamedTuple):
    """The training step after which replicas differ first, and the ranks that differ from most.

    ``seen_in`` is the latest step that any of them had made by then.
    """

    step: int
    ranks: tuple[int, ...]
    seen_in: int


class Comparison:
    """Takes what ranks tell as it comes, and forgets what was alike."""

    def __init__(self) -> None:
        self._told: dict[Group, dict[int, dict[int, str]]] = defaultdict(dict)
        self._over: set[Group] = set()

    def take(self, rank: int, told: Moments) -> Apart | None:
        """Return the first difference in the rank's group, once, if it is known now."""
        if told.group in self._over:
            return None
        moments = self._told[told.group]
        for number, digest in enumerate(told.digests, told.since):
            moments.setdefault(number, {})[rank] = digest
        return self._first_apart(told.group)

    def _first_apart(self, group: Group) -> Apart | None:
        moments = self._told[group]
        latest = max(moments, default=0)
        for number in sorted(moments):
            said = moments[number]
            if len(said) < len(group):
                return None
            del moments[number]
            if len(set(said.values())) > 1:
                self._over.add(group)
                moments.clear()
                # Norms that differ from the start may be those of GPUs of several models.
                ranks, _ = odd_ones(minority(said), said)
                return Apart(number - 1, ranks, latest - 1) if number else None
        return None
