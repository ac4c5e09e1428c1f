"""Where ranks stand that do not come to the end of a test, and who keeps whom waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from ddpcheck.engine.stacks import shown_waiting_call
from ddpcheck.measures.stack_lines import INNERMOST_FIRST, users_place
from ddpcheck.measures.words import ranks_told
from ddpcheck.testing.errands import Stand
from ddpcheck.testing.pool import Rank

# How long ranks take to write their stacks: milliseconds, on a busy machine more.
ANSWER_S = 1.0
POLL_S = 0.02
# So many looks in a row must find the same stacks, so long apart.
LOOKS_COUNT = 4
LOOK_S = 1.0
BACKWARD = "backward"
# A backward pass either computes, or waits for DDP's collectives, for which all must enter it: four
# looks at one that waits took 0.01 s of the processor.
BUSY_S = 0.1
# As a stack names them.
ALL_MUST_ENTER = {
    *("all_reduce", "broadcast", "barrier", "reduce", "all_gather", "all_gather_into_tensor"),
    *("all_gather_object", "gather", "gather_object", "scatter", "scatter_object_list"),
    *("broadcast_object_list", "reduce_scatter", "reduce_scatter_tensor", "all_to_all"),
    *("all_to_all_single", "monitored_barrier", BACKWARD),
}


class Standing:
    """Looks at the stacks of ranks, from outside."""

    def __init__(self) -> None:
        self._seen: list[dict[int, Stand]] = []
        self._looked_at = 0.0

    def is_hopeless(self, ended: Collection[int], left: Mapping[int, Rank]) -> bool:
        """Return whether those that are left wait for one that has ended, or in unlike calls.

        To be asked now and then: the stacks of several times are compared. Those that wait in one
        collective, all of them, may be carrying it out. However often it is asked, as when many
        ranks report at once, it looks no more often than that.
        """
        if time.monotonic() < self._looked_at + LOOK_S:
            return False
        self._looked_at = time.monotonic()
        seen = {number: stand for number, rank in left.items() if (stand := rank.where())}
        for rank in left.values():
            rank.ask_where()
        if len(seen) == len(left):
            self._seen = [*self._seen, seen][-LOOKS_COUNT:]
        return len(self._seen) == LOOKS_COUNT and never_ends(self._seen, set(left), bool(ended))


def never_ends(seen: list[dict[int, Stand]], left: set[int], some_have_ended: bool) -> bool:
    """Return whether ranks that were seen to stand still, several times, can never go on.

    Only where there is one group, and each waits in a collective of it, which all must enter: what
    two ranks send each other, or do in a group of their own, may take its time.
    """
    first, *later = seen
    if set(first) != left or any(each != first for each in later):
        return False
    calls = {each.call for each in first.values()}
    if not calls <= ALL_MUST_ENTER or any(each.groups != 1 for each in first.values()):
        return False
    if any(each.call == BACKWARD and _took(rank, seen) > BUSY_S for rank, each in first.items()):
        return False
    return some_have_ended or len(calls) > 1


def _took(rank: int, seen: list[dict[int, Stand]]) -> float:
    return seen[-1][rank].busy_s - seen[0][rank].busy_s


def stands_now(ranks: Mapping[int, Rank]) -> dict[int, Stand]:
    """Return where each of these ranks is; an empty stack where it does not answer."""
    found: dict[int, Stand] = {}
    for rank in ranks.values():
        rank.where()  # an answer of before is none of now
        rank.ask_where()
    _wait_for(lambda: _hear(ranks, found))
    mute = {number: rank for number, rank in ranks.items() if number not in found}
    for rank in mute.values():
        rank.ask_in_c()
    _wait_for(lambda: all(rank.written_stacks() for rank in mute.values()))
    return {**{number: _written(rank) for number, rank in mute.items()}, **found}


def _hear(ranks: Mapping[int, Rank], found: dict[int, Stand]) -> bool:
    found |= {number: stand for number, rank in ranks.items() if (stand := rank.where())}
    return len(found) == len(ranks)


def _written(rank: Rank) -> Stand:
    shown = rank.written_stacks()
    return Stand(shown_waiting_call(shown), f"{INNERMOST_FIRST}\n{shown}" if shown else "")


def _wait_for(is_there: Callable[[], bool]) -> None:
    until = time.monotonic() + ANSWER_S
    while not is_there() and time.monotonic() < until:
        time.sleep(POLL_S)


def told(test: str, stands: Mapping[int, Stand], at_the_end: Mapping[int, object]) -> str:
    """Return in words who waits for whom, and where.

    stands: of the ranks that have not come to the test's end. at_the_end: those that have.
    """
    waiting = {rank: each for rank, each in stands.items() if each.call}
    lines = _who(waiting, [rank for rank in stands if rank not in waiting], list(at_the_end))
    shown = [
        f"\nrank {rank} stands here:\n{each.stack}"
        if each.stack
        else f"\nrank {rank} does not answer: no thread of it runs"
        for rank, each in stands.items()
    ]
    return "\n".join([f"{test} does not end:", *(f"  {line}" for line in lines), *shown])


def _who(waiting: Mapping[int, Stand], busy: list[int], at_the_end: list[int]) -> list[str]:
    calls: dict[str, list[int]] = {}
    for rank, each in waiting.items():
        place = users_place(each.stack)
        at = f" at {Path(place.file).name}:{place.line}" if place else ""
        calls.setdefault(f"{each.call}{at}", []).append(rank)
    lines = [
        f"{ranks_told(ranks)} wait{'s' * (len(ranks) == 1)} in {call}"
        for call, ranks in calls.items()
    ]
    if busy:
        lines.insert(0, f"{ranks_told(busy)} {_be(busy)} in no collective")
    if at_the_end:
        absent = " and will not enter it" if calls and not busy else ""
        lines.insert(0, f"{ranks_told(at_the_end)} came to the end of the test{absent}")
    if len({each.call for each in waiting.values()}) > 1 and not busy and not at_the_end:
        lines.insert(0, "the ranks wait in different collectives:")
    return lines


def _be(ranks: list[int]) -> str:
    return "is" if len(ranks) == 1 else "are"
