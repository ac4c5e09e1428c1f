"""Two reports side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ddpcheck.change import Change
from ddpcheck.report import Report, unfold


@dataclass(frozen=True)
class Both:
    """An older report, a newer one, and the part of a speed that may be lost, of 1."""

    old: Report
    new: Report
    bound_ratio: float

    @property
    def same_ranks(self) -> bool:
        """Return whether both runs had as many ranks: speeds of others cannot be compared."""
        return self.old.run.world_size == self.new.run.world_size

    def facts(self, check: str) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return what the ranks measured then and now, by name; what has no names is left out."""
        old, new = (unfold(report.facts.get(check, ())) for report in (self.old, self.new))
        return _named(old), _named(new)


def _named(facts: Mapping[int, Any]) -> dict[int, Any]:
    return {rank: fact for rank, fact in facts.items() if isinstance(fact, Mapping)}


@dataclass(frozen=True)
class Told:
    """What one part of the comparison found, and what it had to leave out."""

    changes: Iterable[Change] = ()
    left_out: Iterable[str] = field(default_factory=tuple)


def grouped(pairs: Mapping[int, tuple[str, str]]) -> dict[tuple[str, str], list[int]]:
    """Return for each pair of a value then and now the ranks that have it, in their order."""
    groups: dict[tuple[str, str], list[int]] = {}
    for rank in sorted(pairs):
        groups.setdefault(pairs[rank], []).append(rank)
    return groups
