"""Many cases on one rank: what was right, what was wrong, and what the backend does not offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ddpcheck.check import Context
from ddpcheck.collectives.cases import Case
from ddpcheck.collectives.kinds import BY_NAME
from ddpcheck.collectives.trial import Mismatch, Trial
from ddpcheck.measures.known_wrong import known_fault
from ddpcheck.measures.wrong_elements import MOVE, Compared, Wrong

# What torch 2.4 to 2.13, gloo and NCCL say of what they do not offer.
REFUSALS = (
    "not supported",
    "unsupported",
    "does not support",
    "does not implement",
    "not implemented",
    "cannot use reduceop",
    "can't be cast to the desired output type",
    "invalid scalar type",
    "must be contiguous",
    "data type must be",
    "unconvertible nccl type",
)
LONGEST_REASON = 120


def compared(ctx: Context, cases: Iterable[Case]) -> Compared:
    """Return what came of these cases among all ranks.

    What the backend refused once is not tried again: it refuses by its own rules, and so on all
    ranks alike. They stay in step.
    """
    tally = Tally(Trial(ctx.rank, range(ctx.world_size), ctx.device))
    for case in cases:
        tally.add(case)
    return tally.facts(ctx.backend)


@dataclass
class Tally:
    """What one rank found so far."""

    trial: Trial
    cases: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, Wrong] = field(default_factory=dict)
    known: dict[str, Wrong] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, case: Case) -> None:
        """Carry out a case, unless the group is too small or the backend has refused its like."""
        if not self.takes(case):
            return
        try:
            mismatch = self.trial.first_mismatch(case)
        except (RuntimeError, ValueError, TypeError) as error:
            message = " ".join(str(error).split())
            if not is_refusal(message):
                raise
            self.refused[_refused_part(case, message)] = message[:LONGEST_REASON]
            return
        self.note(case, mismatch)

    def takes(self, case: Case) -> bool:
        """Return whether the group can carry out a case, as far as is known."""
        if len(self.trial.members) < BY_NAME[case.kind].least_ranks:
            return False
        return not {content_of(case), place_of(case)} & self.refused.keys()

    def note(self, case: Case, mismatch: Mismatch | None) -> None:
        """Count a case that was carried out."""
        if mismatch is not None:
            self._note_wrong(Wrong(*case, *mismatch, turn=self.cases))
        self.cases += 1

    def _note_wrong(self, wrong: Wrong) -> None:
        if fault := known_fault(wrong):
            self.known.setdefault(fault.title, wrong)
            return
        self.counts[wrong.kind] = self.counts.get(wrong.kind, 0) + 1
        self.wrong.setdefault(wrong.kind, wrong)

    def facts(self, backend: str) -> Compared:
        """Return all of it."""
        return Compared(
            backend=backend,
            cases=self.cases,
            elements=self.trial.compared_elements,
            wrong_cases=self.counts,
            wrong=tuple(self.wrong.values()),
            refused=_by_reason(self.refused),
            known=tuple(self.known.values()),
        )


def content_of(case: Case) -> str:
    """Return the name of what is in a case, such as "all_reduce AVG float32"."""
    return " ".join((case.kind, *(() if case.op == MOVE else (case.op,)), case.dtype))


def place_of(case: Case) -> str:
    """Return the name of where a case has its memory, such as "all_reduce transposed"."""
    return f"{case.kind} {case.memory}"


def is_refusal(message: str) -> bool:
    """Return whether an exception's message says "not offered"."""
    return any(word in message.lower() for word in REFUSALS)


def _by_reason(refused: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for what, reason in refused.items():
        found[reason] = (*found.get(reason, ()), what)
    return found


def _refused_part(case: Case, message: str) -> str:
    is_of_place = "contiguous" in message and case.memory == "transposed"
    return place_of(case) if is_of_place else content_of(case)
