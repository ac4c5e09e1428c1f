"""What a settings file asks of the judging: severities, thresholds, suppressions.

It travels to every rank with the other settings, and stands in the report as it was asked for.
``config/file.py`` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

import msgspec

from ddpcheck.finding import Finding, Severity


def is_meant(entry: str, check_id: str) -> bool:
    """Return whether ``entry`` is this id, its family, or a pattern that matches it."""
    return fnmatchcase(check_id, entry) or check_id.startswith(f"{entry}/")


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that are known and accepted, and why; what is left empty holds for all of them.

    ``check`` is an id, a family or a pattern; ``hosts`` are patterns; ``match`` is a regular
    expression that is searched in title and message; ``location`` is the end of a path or a
    pattern, with or without a line: train.py, src/*.py, train.py:41.
    """

    check: str
    reason: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    match: str = ""
    location: str = ""

    def covers(self, finding: Finding, host_of: Mapping[int, str]) -> bool:
        """Return whether the whole finding is meant: each of its ranks, and each host."""
        hosts = {host_of.get(rank, "") for rank in finding.ranks}
        return (
            is_meant(self.check, finding.id)
            and (not self.ranks or _is_part(finding.ranks, self.ranks))
            and (not self.hosts or (bool(hosts) and all(map(self._is_host, hosts))))
            and re.search(self.match, f"{finding.title}\n{finding.message}") is not None
            and (not self.location or self._is_place(finding))
        )

    def could_apply(self, host_of: Mapping[int, str]) -> bool:
        """Return whether a rank or a host that it names took part."""
        ranks = not self.ranks or not set(self.ranks).isdisjoint(host_of)
        return ranks and (not self.hosts or any(map(self._is_host, host_of.values())))

    def _is_host(self, host: str) -> bool:
        return any(fnmatchcase(host, pattern) for pattern in self.hosts)

    def _is_place(self, finding: Finding) -> bool:
        file, _, line = self.location.rpartition(":")
        if not line.isdecimal():
            file, line = self.location, ""
        at = finding.location
        is_line = at is not None and line in ("", str(at.line))
        return at is not None and is_line and PurePosixPath(at.file).match(file)


def _is_part(ranks: Sequence[int], of: Sequence[int]) -> bool:
    # A finding without ranks is about the whole run.
    return bool(ranks) and set(ranks) <= set(of)


class Suppressed(msgspec.Struct, frozen=True):
    """A finding that does not count, and why not."""

    finding: Finding
    reason: str


class Threshold(msgspec.Struct, frozen=True):
    """A constant of a check with another value than the check's author gave it."""

    check: str
    name: str
    value: Any
    default: Any


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """What a settings file asks for; without a ``file`` nothing.

    ``passed_over`` is a file in the same folder that does not count. ``options`` are defaults, by
    their names on the command line: that itself, or a variable, may have outweighed them.
    ``severity`` is by id, family or pattern.
    """

    file: str = ""
    passed_over: str = ""
    options: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    severity: Mapping[str, Severity] = msgspec.field(default_factory=dict[str, Severity])
    thresholds: Sequence[Threshold] = ()
    suppress: Sequence[Suppression] = ()

    def severity_of(self, check_id: str) -> Severity | None:
        """Return the severity that the check's findings get, or None for their own.

        Its id outweighs families and patterns; of those the last one counts.
        """
        meant = [value for entry, value in self.severity.items() if is_meant(entry, check_id)]
        return self.severity.get(check_id) or (meant[-1] if meant else None)

    def thresholds_of(self, check_id: str) -> dict[str, Any]:
        """Return the changed values of one check, by the names of its constants."""
        return {each.name: each.value for each in self.thresholds if each.check == check_id}
