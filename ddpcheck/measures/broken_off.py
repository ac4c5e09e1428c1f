"""Who is behind it when a watched script breaks off in a collective, before anybody stands still."""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.measures.testimony import ABORTED, State, Testimony
from ddpcheck.measures.words import spans

# gloo aborts a process whose part of a collective is of another size than its peer's (an exception
# of its own thread, op.preamble.length in transport/tcp/pair.cc), and the peer says this.
PEER_LEFT = ("Connection reset by peer", "Connection closed by peer", "closed the connection")
# What ranks say whose group gave up waiting: gloo's, and the watchdog's of NCCL.
GAVE_UP = ("Timed out waiting", "collective operation timeout", "wait timeout after")


def parted(told: Mapping[int, Testimony]) -> dict[int, str]:
    """Return what ranks were in when gloo broke off a collective whose two parts did not match."""
    aborted = {r: t for r, t in told.items() if t.ended_by == ABORTED and t.waits and t.is_watched}
    left = {r: t for r, t in told.items() if _raised(t, PEER_LEFT)}
    asked = {r: t for r, t in told.items() if _was_asked(t)}
    if aborted and not left and {*aborted, *asked} == set(told):
        left = asked
    if not aborted or not left:
        return {}
    inside = {
        rank: f"was in {each.waits} when gloo aborted it: what came there was another call's"
        for rank, each in aborted.items()
    }
    theirs = f"was in another call, and lost its connection to rank {spans(aborted)}"
    on_its_way = f"was in another call, or on its way to one, when rank {spans(aborted)} had gone"
    return inside | dict.fromkeys(left, on_its_way if left is asked else theirs)


def _was_asked(own: Testimony) -> bool:
    """Return whether it was asked to end before it had noticed that a peer had gone: by torchrun, say.

    NCCL aborts who has waited for too long, and gloo does not.
    """
    is_at_work = own.state is State.BUSY and own.is_watched and not own.overran
    return is_at_work and bool(own.interrupted_by) and own.backend == "gloo"


def came_too_late(told: Mapping[int, Testimony]) -> dict[int, str]:
    """Return who was still at work, in no collective, when the others' group gave up waiting."""
    if not any(_raised(each, GAVE_UP) for each in told.values()):
        return {}
    late = (r for r, t in told.items() if t.state is State.BUSY and not t.waits and t.is_watched)
    return dict.fromkeys(late, "was still at work when the others' group gave up waiting")


def _raised(own: Testimony, words: tuple[str, ...]) -> bool:
    is_said = any(each in own.error for each in words)
    return own.state is State.RAISED and own.is_victim and is_said and own.is_watched
