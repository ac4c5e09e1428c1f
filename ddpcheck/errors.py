"""Everything ddpcheck raises on purpose, and the exit codes a command can end with."""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """The process exit codes that schedulers and scripts may rely on."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    INTERNAL = 3
    INCOMPLETE = 4
    INTERRUPTED = 130


class DdpcheckError(Exception):
    """The root of the tree: its text is one line that says what to do."""

    exit_code = ExitCode.INTERNAL


class UsageError(DdpcheckError):
    """The user asked for something that cannot be done as asked."""

    exit_code = ExitCode.USAGE


class TargetError(UsageError):
    """The user's target cannot be imported, built or used."""


class GateError(DdpcheckError):
    """A report does not allow the training run that was asked for."""

    exit_code = ExitCode.FINDINGS


class ReportError(UsageError):
    """A report or run directory cannot be read or written."""


class CatalogueError(DdpcheckError):
    """A check module breaks the protocol (see ``check.py``)."""


class LaunchError(DdpcheckError):
    """Ranks could not be started, or could not meet.

    ``kind`` is how the attempt to meet ended, a ``Reached`` or ``ABSENT``, or '' when it is none of
    them; ``owner`` says who holds the port, if that is what is in the way and can be seen;
    ``missing`` are the numbers of the nodes that did not come, where known.
    """

    exit_code = ExitCode.INCOMPLETE
    kind = ""
    owner = ""
    missing: tuple[int, ...] = ()


# How a meeting ended to which somebody did not come.
ABSENT = "absent"


class MeetingError(LaunchError):
    """Ranks, or the hosts that are to start them, could not meet, and it is known how that ended."""

    def __init__(
        self, message: str, kind: str, owner: str = "", missing: Sequence[int] = ()
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.owner = owner
        self.missing = tuple(missing)
