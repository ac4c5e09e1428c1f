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
SAME_EVERYWHERE = (
    "all ranks are in it: much is sent, or over a slow network, or packets are lost, or an isend or an "
    "asynchronous call before it was never waited for"
)


class LongWait:
    """Tells when it is time to say so: once in a run."""

    def __init__(self) -> None:
        self._since_s = float("inf")
        self._is_told = False

    def is_due(self, standing: int, watched: int, now_s: float) -> bool:
        """Return whether ranks have stood for so long, of ``watched`` that there are."""
        if self._is_told or not (standing and watched > 1):
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
    rest = f"rank {others} is at work elsewhere, or stuck there" if others else SAME_EVERYWHERE
    return (
        f"rank {spans(sorted(standing))} has waited for {LONG_S:.0f} s, rank {first} in "
        f"{own.waits or 'a collective'}{f' at {place}' if place else ''}; {rest}. Ctrl-C ends the "
        "run, and the report says where each rank was"
    )
