"""What changed from one report to another: changes, and what could not be compared."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Course(StrEnum):
    """Which way a change goes."""

    WORSE = "worse"
    CHANGED = "changed"
    BETTER = "better"

    @property
    def order(self) -> int:
        """Return its place where the worst comes first, from 0."""
        return tuple(Course).index(self)


class Part(StrEnum):
    """What of a report a change is about, in the order in which a reader wants it."""

    VERDICT = "verdict"
    RANKS = "ranks"
    FINDINGS = "findings"
    CHECKS = "checks"
    SPEED = "speed"
    TRAINING = "training"
    TOPOLOGY = "topology"
    VERSIONS = "versions"
    VARIABLES = "variables"
    RUN = "run"

    @property
    def order(self) -> int:
        """Return its place, from 0."""
        return tuple(Part).index(self)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is other than it was; ``before`` or ``now`` is '' for what was not there.

    ``ratio`` is what was gained of a speed, below 0 for what was lost, as a part of 1; None for what
    has no size. ``ranks`` are empty where all have it.
    """

    part: Part
    what: str
    before: str
    now: str
    course: Course = Course.CHANGED
    ranks: Sequence[int] = ()
    ratio: float | None = None
    note: str = ""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All that changed from one run, ``before``, to another, ``now``; both are run ids.

    The worst changes come first. ``left_out`` says what could not be compared, and why.
    """

    before: str
    now: str
    bound_ratio: float
    changes: Sequence[Change] = ()
    left_out: Sequence[str] = ()

    @property
    def is_worse(self) -> bool:
        """Return whether anything is worse."""
        return self.count(Course.WORSE) > 0

    def count(self, course: Course) -> int:
        """Return how many changes go this way."""
        return sum(change.course is course for change in self.changes)
