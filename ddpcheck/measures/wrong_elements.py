"""Wrong elements that collectives gave, and the finding that names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.finding import Finding
from ddpcheck.measures.known_wrong import Known, known_fault
from ddpcheck.measures.words import listed

FIXES = {
    "nccl": "take the named ranks' host out of the job, or try NCCL_P2P_DISABLE=1 and "
    "NCCL_ALGO=Ring in turn to find the path that is wrong",
    "gloo": "run again with --select collectives on each of the named ranks' hosts alone: if one "
    "is wrong by itself, test its memory; if only together, the network between them",
}
MOVE = "move"  # the op of a collective that reduces nothing


class Wrong(msgspec.Struct, frozen=True):
    """The first wrong element of one collective, and how many of its elements are wrong.

    ``size`` counts the elements of a block, ``index`` those that this rank got; ``turn`` counts
    the cases from 0.
    """

    kind: str
    dtype: str
    op: str
    size: int
    memory: str
    mode: str
    index: int
    expected: float
    got: float
    wrong_elements: int
    turn: int = 0

    def __str__(self) -> str:
        """Return the case, and its first wrong element."""
        reduced = "" if self.op == MOVE else f"{self.op} of "
        return (
            f"{self.kind}, {reduced}{self.size} {self.dtype} ({self.memory}, {self.mode}): "
            f"element {self.index} is {self.got:g}, expected {self.expected:g}; "
            f"{self.wrong_elements} elements of it are wrong"
        )


class Compared(msgspec.Struct, frozen=True):
    """What one rank compared: cases, elements, the first wrong one of each collective.

    ``wrong_cases`` counts them by collective; ``known`` are those that look like a fault of the
    library; ``refused`` has what the backend does not offer, by the words in which it says so.
    """

    backend: str
    cases: int
    elements: int
    wrong_cases: dict[str, int] = {}
    wrong: tuple[Wrong, ...] = ()
    refused: dict[str, tuple[str, ...]] = {}
    known: tuple[Wrong, ...] = ()


def wrong_ranks(compared: Mapping[int, Compared]) -> dict[int, Compared]:
    """Return what the ranks with a wrong element compared, in order."""
    return {rank: compared[rank] for rank in sorted(compared) if compared[rank].wrong}


def findings(compared: Mapping[int, Compared], when: str = "") -> list[Finding]:
    """Return a finding with the first wrong element, and one for each known fault of a library."""
    return [*_wrong(compared, when), *_known(compared)]


def _known(compared: Mapping[int, Compared]) -> Iterator[Finding]:
    found: dict[Known, dict[int, Wrong]] = {}
    for rank in sorted(compared):
        for wrong in compared[rank].known:
            if fault := known_fault(wrong):
                found.setdefault(fault, {})[rank] = wrong
    for fault, firsts in found.items():
        yield fault.finding(firsts)


def _wrong(compared: Mapping[int, Compared], when: str) -> list[Finding]:
    """Return one finding with the first wrong element of the collective that tells the most.

    That is the one that is wrong on the fewest ranks: a reduction hands on to all what one rank
    got wrong. The ranks of that collective are named.
    """
    bad = wrong_ranks(compared)
    if not bad:
        return []
    by_kind: dict[str, dict[int, Wrong]] = {}
    for rank, fact in bad.items():
        for wrong in fact.wrong:
            by_kind.setdefault(wrong.kind, {}).setdefault(rank, wrong)
    fewest = min(map(len, by_kind.values()))
    narrow = [firsts for firsts in by_kind.values() if len(firsts) == fewest]
    first, one = next(iter(narrow[0].items()))
    counts = bad[first].wrong_cases
    what = f"{one.kind} gives" if len(by_kind) == 1 else f"{len(by_kind)} collectives give"
    told = listed(f"{name}: {count}" for name, count in counts.items())
    return [
        Finding(
            title=f"{what} wrong values on {len(bad)} of {len(compared)} ranks{when}",
            message=f"rank {first}: {one}; {sum(counts.values())} of {bad[first].cases} cases are "
            f"wrong there ({told})",
            fix=FIXES[bad[first].backend],
            ranks=tuple(sorted(set().union(*narrow))),
            evidence={
                "collective": one.kind,
                "dtype": one.dtype,
                "op": one.op,
                "size": one.size,
                "index": one.index,
                "expected": one.expected,
                "got": one.got,
                "turn": one.turn,
                "wrong_cases": {
                    str(rank): sum(fact.wrong_cases.values()) for rank, fact in bad.items()
                },
            },
        )
    ]
