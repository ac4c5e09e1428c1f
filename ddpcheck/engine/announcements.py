"""What the leader, or a rank in need, announces to all through the store, and under which keys."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

# The seats, which the leader gives once the roll is called.
ASSIGNMENT = "assignment"
# Set with the seats, and with an end before them: what a rank waits for in the roll call.
ROLL_IS_OVER = "roll-is-over"
# Set by a rank whose work raised inside the process group: others may wait for it in vain.
RAISED = "raised"
# Set by the leader when the run cannot go on: every rank is to say where it is.
INQUEST = "inquest"
# Set by a rank that was asked to end, by its launcher or by Ctrl-C.
STOP = "stop"


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's answer to the roll call; seats are in the order of the members.

    A member is a process in the order of arrival. Its seat is its rank, or, when the ranks
    that processes claim clash, its place in their order. Unless the ranks are just 0 to
    WORLD_SIZE - 1 the run is not ``complete``, and only its launch stage takes place.
    """

    run_id: str
    run_dir: str
    backend: str
    seats: Sequence[int]
    deadline_s: float
    complete: bool


class Decision(msgspec.Struct, frozen=True):
    """Whether the run goes on after a stage."""

    go: bool


class End(msgspec.Struct, frozen=True):
    """The run is over, with this exit code, and ``cause`` in one line where it is not 0.

    The condemned members cannot leave by themselves. Those that are kept waiting stand in their
    scripts, for a rank at its report: they go on with it, or end at once.
    """

    exit_code: int
    condemned: Sequence[int] = ()
    cause: str = ""
    kept_waiting: tuple[int, ...] = ()
    goes_on: bool = False
