"""What a judge returns: a finding, with its severity, confidence and place."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

Scalar: TypeAlias = str | int | float | bool | None
Evidence: TypeAlias = Mapping[str, Scalar | Sequence[Scalar] | Mapping[str, Scalar]]


class Severity(StrEnum):
    """How much a finding matters; a heuristic is never an ``error``."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def weight(self) -> int:
        """Return 0 for info, 1 for warning, 2 for error."""
        return (Severity.INFO, Severity.WARNING, Severity.ERROR).index(self)


class Confidence(StrEnum):
    """How sure the judge is that the named cause is the cause."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Location(msgspec.Struct, frozen=True):
    """A place in the user's source."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault that was seen, who has it, and what to do.

    ``id`` is left empty by judges: the engine fills in the id of the check
    that returned the finding.
    """

    title: str
    message: str
    fix: str
    ranks: tuple[int, ...]
    severity: Severity = Severity.ERROR
    confidence: Confidence = Confidence.HIGH
    location: Location | None = None
    evidence: Evidence = msgspec.field(default_factory=dict[str, Scalar])
    id: str = ""

    def __post_init__(self) -> None:
        if not (self.title and self.message and self.fix):
            raise ValueError("a finding needs a title, a message and a fix")


class Recommendation(msgspec.Struct, frozen=True):
    """One setting that ``train`` takes from a report, with its reason from that run."""

    value: Scalar
    reason: str
