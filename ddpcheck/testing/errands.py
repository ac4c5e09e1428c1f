"""What pytest and its ranks tell each other: plain values that go through a pipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from multiprocessing.reduction import ForkingPickler
from typing import Any, cast

# Files in a rank's own folder: what no capture got, and the stacks of its threads.
OUTPUT, STACK = "output", "stack"


@dataclass(frozen=True)
class Setup:
    """How a rank's own pytest is set up: as the one that asks for it.

    arguments: of its command line. options: all that pytest has parsed, by name. coverage: the data
    file and the settings of the coverage that is measured, or nothing.
    """

    arguments: tuple[str, ...]
    options: dict[str, Any]
    coverage: dict[str, Any]


@dataclass(frozen=True)
class Errand:
    """One test for one rank.

    file: where it is collected from. nodeid: the test. next_file, next_nodeid: what this rank is
    given next, so that fixtures of a wider scope live on; empty where that is not known. port: of the
    test's own store. timeout_s: of its collectives.
    """

    file: str
    nodeid: str
    next_file: str
    next_nodeid: str
    rank: int
    world_size: int
    port: int
    backend: str
    group: bool
    shared_folder: str
    timeout_s: float


@dataclass(frozen=True)
class Said:
    """Base of what a rank says."""


@dataclass(frozen=True)
class Phase(Said):
    """A report of setup, call or teardown, as pytest writes it for another process."""

    report: dict[str, Any]


@dataclass(frozen=True)
class Warned(Said):
    """A warning that pytest has recorded: its category by module and name, its text and its place."""

    module: str
    category: str
    text: str
    file: str
    line: int


@dataclass(frozen=True)
class Called(Said):
    """The test's body has come to its end, or will not run; the rank waits to be let go on."""

    outcome: str


@dataclass(frozen=True)
class Done(Said):
    """The test is over. worn: what it has left changed in the process, or ''."""

    worn: str = ""


@dataclass(frozen=True)
class Unable(Said):
    """The rank cannot run the test at all."""

    reason: str


@dataclass(frozen=True)
class Stand:
    """Where a rank's main thread is: the collective that it waits in, or '', and its stack.

    groups: how many process groups it is in, the one of all ranks among them. busy_s: of the
    processor's time, what its process has taken till then.
    """

    call: str
    stack: str
    groups: int = 0
    busy_s: float = field(default=0.0, compare=False)


def sendable(value: Any) -> Any:
    """Return the value, or, of what does not go through a pipe, what it looks like.

    What a test records as its property, or a hook hangs on its report, may be anything.
    """
    if is_sendable(value):
        return value
    if isinstance(value, dict):
        return {str(name): sendable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(each) for each in cast(list[Any], value)]
    return repr(value)


def is_sendable(value: Any) -> bool:
    """Return whether the value goes through a pipe."""
    try:
        ForkingPickler.dumps(value)
    except Exception:  # whatever the value's own class raises
        return False
    return True
