"""What is known of one rank when the run ends: by its own word, or by its neighbours'."""

from __future__ import annotations

from enum import StrEnum

import msgspec

# What a rank says whose peer has gone: it is a victim. Seen with gloo and NCCL in torch 2.11
# and 2.13; texts of third_party/gloo transport/tcp/pair.cc and of ProcessGroupNCCL.cpp.
VICTIM_WORDS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "remote process exited",
    "Timed out waiting",
    "process group has been destroyed",
    "NCCL communicator was aborted",
    "Application timeout caused pair closure",
    "Connection was likely closed",
    "Socket Timeout",
    "Operation timed out",
    "closed the connection",
    # One peer sent another size than this one waited for.
    "op.preamble.length",
    "connectFullMesh failed",
    "wait timeout after",
    "Timed out after",
    "The client socket has timed out",
    "failed to pass monitoredBarrier",
    "Watchdog caught collective operation timeout",
)
# The exceptions that torch.distributed raises: other libraries have peers of their own.
PEER_ERRORS = ("RuntimeError", "Dist")
# The name under which the making of groups is told, and what ends the name of a group on which
# torch itself called something, to carry out what a script or FSDP asked for.
MAKING = "making of groups"
BY_TORCH = " by torch"
# What follows on the name of a collective of a checkpoint that a thread writes beside the training.
ASIDE = "in async_save's thread"
# Where torch's distributed checkpoints call theirs.
CHECKPOINTS = "checkpoint/utils.py"
# Where ranks wait for those that are still in the training.
MEETING = "rehearsal/meeting-after-the-training"


# Of a rank that neither speaks nor has anybody on its machine to speak for it.
NO_SIGN = "no sign of life from it"
# How the names begin of what a watched script is in; and how libraries end a process that they give
# up: when a peer is gone, or their own watchdog's time is over.
WATCHED = "watch/"
ABORTED = "SIGABRT"


class State(StrEnum):
    """How a rank stands at the end of the run."""

    ENDED = "ended"  # it came through, or waits for the others between two checks
    BUSY = "busy"  # it is inside a check, and its sentinel can speak
    RAISED = "raised"
    GARBLED = "garbled"  # what it told cannot be read
    GONE = "gone"  # its process has ended
    STOPPED = "stopped"  # its process lives, and is stopped by a signal
    SILENT = "silent"  # its process lives, or may, but none of its threads speaks


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One collective that a rank entered; ``number`` counts from 1 within its group."""

    number: int
    what: str
    site: str = ""
    done: bool = True


class GroupCalls(msgspec.Struct, frozen=True, array_like=True):
    """A rank's last collectives on one group, as Python called them, in a watched script.

    ``name`` is torch's, the same on all members; it may end with BY_TORCH. It is MAKING for the
    calls that make groups, which all ranks must make alike, and ``between`` two ranks for what is
    sent and received there. ``ranks`` are empty where only a file was left. ``digest`` stands for
    all calls, also those before the last.
    """

    name: str
    ranks: tuple[int, ...]
    calls: tuple[Call, ...] = ()
    digest: str = ""

    @property
    def is_of_script(self) -> bool:
        """Return whether they are the script's own collectives, on a group of its own."""
        return self.name != MAKING and not self.name.endswith(BY_TORCH) and not self.is_between

    @property
    def is_between(self) -> bool:
        """Return whether these are transfers from one rank to another."""
        return self.name.startswith(BETWEEN)


BETWEEN = "between "


def between(sender: int, receiver: int) -> str:
    """Return the name under which what goes from one rank to another is told."""
    return f"{BETWEEN}{sender} {receiver}"


class Silence(StrEnum):
    """Why nothing is heard of an agent."""

    NONE = ""
    STOPPED = "stopped"  # its process is stopped by a signal
    GONE = "gone"  # its process has ended, and its ranks live


class Agent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The launcher's process that started ranks on a host, torchrun's, and how long it is silent.

    ``since`` is the time of day at which that was first seen.
    """

    host: str
    pid: int
    silence: Silence = Silence.NONE
    silent_s: float = 0.0
    since: str = ""


class Testimony(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one rank did last.

    ``order``: the how-manieth, from 1, of all ranks' ends and exceptions this one was; 0 when
    it has none. ``went_on``: what it raised left the process group whole. ``ended_by``: a signal's name or an exit code, where known. ``waits_in``: the
    collective that its main thread is inside. ``stood_s`` is how long its whole process did nothing,
    just before and in the check ``stood_in``, where that was most of the time that it had. ``calls`` are the last collectives of the check
    as Python called them, ``recorded`` those of the world group as torch's Flight Recorder
    has them, DDP's own included; ``sequence`` is how many the process group itself has counted, and ``backend`` who carries them out.
    ``digest`` stands for all that Python called. ``groups`` has the calls on other groups, in a
    watched script. ``agent`` is the one that started the rank, where it is silent. All are empty where nothing went wrong.
    """

    state: State = State.ENDED
    check: str = ""
    overran: bool = False
    error: str = ""
    ended_by: str = ""
    order: int = 0
    stack: str = ""
    stood_s: float = 0.0
    stood_in: str = ""
    waits_in: str = ""
    interrupted_by: str = ""
    unkept: str = ""
    went_on: bool = False
    calls: tuple[Call, ...] = ()
    recorded: tuple[Call, ...] = ()
    sequence: int = 0
    backend: str = ""
    digest: str = ""
    groups: tuple[GroupCalls, ...] = ()
    agent: Agent | None = None

    @property
    def is_watched(self) -> bool:
        """Return whether it was in a script of the user's."""
        return f"{self.check}/".startswith(WATCHED)  # a stage alone, where the check is not known

    @property
    def is_victim(self) -> bool:
        """Return whether what the rank raised says that another one went first."""
        return is_victims(self.error)

    @property
    def waits(self) -> str:
        """Return what the rank waits in for others, or ''."""
        return self.waits_in or ("the training" if self.check == MEETING else "")


def is_victims(error: str) -> bool:
    """Return whether an error, "Type: text", says that another rank went first."""
    of_torch = error.startswith(PEER_ERRORS) or ":" not in error
    return of_torch and any(word in error for word in VICTIM_WORDS)
