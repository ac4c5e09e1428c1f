"""What a settings file says of judging: severities, thresholds, suppressions; typed, and known.

Each id and pattern must match a check that is installed, each threshold be one of its check's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from ddpcheck.config.file import SettingsFile
from ddpcheck.configuration import Configuration, Suppression, Threshold, is_meant
from ddpcheck.errors import UsageError
from ddpcheck.finding import Severity

if TYPE_CHECKING:
    from ddpcheck.check import Check

T = TypeVar("T")
TABLES = ("severity", "thresholds", "suppress")
# msgspec speaks of JSON.
IN_TOML = {"Object missing": "it lacks the", "Object contains": "it has the", "`object`": "`table`"}
SPANS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
# Ranks of more than any job: a typing error would fill the memory.
MOST_RANKS = 1_000_000


class Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One [[suppress]] as it is written; ``ranks`` may be a text such as "0-7,9"."""

    check: str
    reason: str
    ranks: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] | str = ()
    hosts: tuple[str, ...] = ()
    match: str = ""
    location: str = ""

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError("the reason is blank: say why these findings are accepted")
        if any(not host.strip() for host in self.hosts):
            raise ValueError("a host has no name")
        _require_expression(self.match)
        _require_place(self.location)

    def suppression(self) -> Suppression:
        """Return what is suppressed; raises ValueError for ranks that cannot be read."""
        ranks = _ranks(self.ranks) if isinstance(self.ranks, str) else self.ranks
        return Suppression(
            check=self.check,
            reason=" ".join(self.reason.split()),
            ranks=ranks,
            hosts=self.hosts,
            match=self.match,
            location=self.location,
        )


def configuration_of(file: SettingsFile, options: Mapping[str, str]) -> Configuration:
    """Return what the file asks for; raises UsageError, naming the file and the key."""
    content = {name: file.content[name] for name in TABLES if name in file.content}
    asked = Configuration(file=file.shown, passed_over=file.passed_over, options=options)
    if not content:
        return asked
    from ddpcheck.catalogue import catalogue  # it takes longer than all else here

    read = _Reading(file, catalogue())
    return msgspec.structs.replace(
        asked,
        severity=read.severities(content.get("severity", {})),
        thresholds=read.thresholds(content.get("thresholds", {})),
        suppress=read.suppressions(content.get("suppress", [])),
    )


class _Reading:
    def __init__(self, file: SettingsFile, checks: Sequence[Check]) -> None:
        self._file = file
        self._checks = checks

    def severities(self, table: object) -> dict[str, Severity]:
        where = self._file.key("severity")
        given = _typed(where, table, dict[str, Any])
        return {entry: self._severity(entry, value) for entry, value in given.items()}

    def thresholds(self, table: object) -> list[Threshold]:
        given = _typed(self._file.key("thresholds"), table, dict[str, Any])
        return [
            self._threshold(check, name, value)
            for check, values in given.items()
            for name, value in _typed(
                self._file.key("thresholds", check), values, dict[str, Any]
            ).items()
        ]

    def suppressions(self, tables: object) -> list[Suppression]:
        given = _typed(self._file.key("suppress"), tables, list[Any])
        return [self._suppression(number, each) for number, each in enumerate(given, 1)]

    def _severity(self, entry: str, value: object) -> Severity:
        where = self._file.key("severity", entry)
        self._meant(where, entry)
        if value not in tuple(Severity):
            choices = ", ".join(Severity)
            raise UsageError(f"{where}: is {value!r}; choose from {choices}, or use skip")
        return Severity(str(value))

    def _threshold(self, check_id: str, name: str, value: object) -> Threshold:
        from ddpcheck.thresholds import checked, thresholds_of

        where = self._file.key("thresholds", check_id, name)
        check = next((each for each in self._checks if each.id == check_id), None)
        if check is None:
            self._meant(where, check_id)
            raise UsageError(f"{where}: name one check by its id, not several")
        defaults = thresholds_of(check)
        if name not in defaults:
            there = ", ".join(defaults) or "none"
            raise UsageError(f"{where}: {check_id} has no such threshold; it has {there}")
        try:
            return Threshold(check_id, name, checked(check, name, value), defaults[name])
        except ValueError as error:
            raise UsageError(f"{where}: {_said(error)}; it is {defaults[name]} now") from error

    def _suppression(self, number: int, table: object) -> Suppression:
        where = f"{self._file.key('suppress')} (number {number})"
        try:
            suppression = _typed(where, table, Written).suppression()
        except ValueError as error:
            raise UsageError(f"{where}: {_said(error)}") from error
        if all(check.is_inquest for check in self._meant(where, suppression.check)):
            raise UsageError(
                f"{where}: {suppression.check} is about ranks that did not come through, which "
                "cannot be suppressed; find out why with 'ddpcheck explain'"
            )
        return suppression

    def _meant(self, where: str, entry: str) -> list[Check]:
        from ddpcheck.catalogue import unknown

        found = [check for check in self._checks if is_meant(entry, check.id)]
        if not found:
            raise UsageError(f"{where}: {unknown(entry, self._checks)}")
        return found


def _typed(where: str, value: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {_said(error)}") from error


def _said(error: Exception) -> str:
    """Return msgspec's words without its own name of the place, which is known better."""
    said = " ".join(str(error).split())
    what, _, place = said.partition(" - at `")
    inner = place.rstrip("`").lstrip("$.")
    for theirs, ours in IN_TOML.items():
        what = what.replace(theirs, ours)
    return f"{inner}: {what}" if inner else what


def _require_expression(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"match is no regular expression: {error}") from error


def _require_place(text: str) -> None:
    file = text.rpartition(":")[0] if text.rpartition(":")[2].isdecimal() else text
    if text and not PurePosixPath(file).name:
        raise ValueError(f"location '{text}' names no file")


def _ranks(text: str) -> tuple[int, ...]:
    bare = text.replace(" ", "")
    if not SPANS.fullmatch(bare):
        raise ValueError(f"ranks '{text}' cannot be read: write [0, 1] or '0-7,9'")
    ranks: list[int] = []
    for span in bare.split(","):
        first, _, last = span.partition("-")
        if int(last or first) >= MOST_RANKS or int(last or first) < int(first):
            raise ValueError(f"ranks '{text}' cannot be read: {span} is no span of ranks")
        ranks += range(int(first), int(last or first) + 1)
    return tuple(ranks)
