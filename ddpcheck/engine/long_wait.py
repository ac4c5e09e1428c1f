"""Ranks of a script that wait for long, while others are at work or stuck: nobody knows which yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ddpcheck.engine.standstill import STILL_S
from ddpcheck.measures.stack_lines import users_place
from ddpcheck.measures.testimony import Testimony
from ddpcheck.measures.words import spans

# Compiling and preprocessing on one rank often take less; until the group's timeout, half an hour by
# default, nobody would hear of a rank that hangs by itself.
LONG_S = 30.0


class LongWait:
    """Tells when it is time to say so: once in a run."""

    def __init__(self) -> None:
        self._since_s = float("inf")
        self._is_told = False

    def is_due(self, standing: int, watched: int, now_s: float) -> bool:
        """Return whether some ranks, and not all that are watched, have stood for so long."""
        if self._is_told or not 0 < standing < watched:
            self._since_s = float("inf")
            return False
        # They tell of it after they have stood for a while.
        self._since_s = min(self._since_s, now_s - STILL_S)
        self._is_told = now_s - self._since_s >= LONG_S
        return self._is_told


def told_wait(standing: Mapping[int, Testimony], watched: Collection[int]) -> str:
    """Return who waits where, and who does not; ``standing`` is not empty."""
    first = min(standing)
    own = standing[first]
    place = users_place(own.stack)
    others = spans(sorted(set(watched) - set(standing)))
    return (
        f"rank {spans(sorted(standing))} has waited for {LONG_S:.0f} s, rank {first} in "
        f"{own.waits or 'a collective'}{f' at {place}' if place else ''}; rank {others} is at work "
        "elsewhere, or stuck there. Ctrl-C ends the run, and the report says where each rank was"
    )
