"""A training step raises on at least one rank.

Why it matters
    One rank that raises takes the others with it: they wait in a collective, or fail with
    "Connection closed by peer", and it is their message that ends up in the log. The rank
    that raised first, with its own line, is the one to look at.

What to do
    Run the training of that rank's data on one process; mend the line that the finding
    names. If DDP complains of unused parameters, remove them, use their output in the
    loss, or pass find_unused_parameters=True.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.testimony import is_victims
from ddpcheck.measures.words import spans


class Facts(msgspec.Struct, frozen=True):
    """What raised on this rank, if anything; ``at`` is Unix time in seconds.

    ``ended`` is whether its script came to its end, after so many ``steps``.
    """

    steps: int
    error: str | None = None
    step: int = 0
    at: float = 0.0
    location: Location | None = None
    world_size: int = 0
    ended: bool = False

    @property
    def is_victim(self) -> bool:
        """Return whether the error says that another rank went first."""
        return is_victims(self.error or "")


class Observer:
    """Notes the first exception of the training."""

    def __init__(self, ctx: Context) -> None:
        self._facts = Facts(0, world_size=ctx.world_size)

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._facts = msgspec.structs.replace(self._facts, steps=step + 1)

    def on_raise(self, step: int, error: BaseException) -> None:
        """Keep what was raised, and where in the user's code."""
        shown = f"{type(error).__name__}: {' '.join(str(error).split())[:600]}"
        self._facts = msgspec.structs.replace(
            self._facts, error=shown, step=step, at=time.time(), location=_user_line(error)
        )

    def on_ended(self) -> None:
        """Note that no step will come any more."""
        self._facts = msgspec.structs.replace(self._facts, ended=True)

    def facts(self) -> Facts:
        """Return what was seen."""
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that raised first, leaving their victims out."""
    raised = {rank: fact for rank, fact in facts.items() if fact.error}
    if not raised:
        return []
    culprits = {rank: fact for rank, fact in raised.items() if not fact.is_victim}
    blamed = culprits or raised
    world = max(max(facts) + 1, *(fact.world_size for fact in facts.values()))
    missing = tuple(sorted(set(range(world)) - set(facts)))
    first = min(blamed, key=lambda rank: blamed[rank].at)
    fact = blamed[first]
    gone = () if culprits or missing else tuple(r for r, own in sorted(facts.items()) if own.ended)
    if gone:
        return [_left_first(gone, facts, fact)]
    same = tuple(sorted(rank for rank, other in blamed.items() if _kind(other) == _kind(fact)))
    return [
        Finding(
            title=f"the training raised in step {fact.step}"
            if culprits
            else f"the training lost a peer in step {fact.step}",
            message=f"{fact.error}{_victims(raised, same)}",
            fix="mend the line that raised, and run again; 'ddpcheck explain' has more"
            if culprits
            else "look for the rank that went first: one that was lost, or raised",
            ranks=same if culprits else missing or same,
            # Who lost a peer that told nothing has done nothing wrong: that one is lost.
            severity=Severity.INFO if missing and not culprits else Severity.ERROR,
            # The line is that of who told of it, which is no line of the missing ones.
            location=fact.location if culprits or not missing else None,
            confidence=Confidence.HIGH if culprits else Confidence.LOW,
            evidence={"errors": {str(rank): each.error for rank, each in raised.items()}},
        )
    ]


def _left_first(gone: tuple[int, ...], facts: Mapping[int, Facts], victim: Facts) -> Finding:
    """Return a finding where all that raised lost those that had come to their end."""
    return Finding(
        title=f"rank {spans(gone)} came to its end while others went on",
        message=f"rank {spans(gone)} made {facts[gone[0]].steps} steps and left; others lost a peer in step "
        f"{victim.step}: {victim.error}",
        fix="let all ranks make as many steps: decide on all together when to stop, or to leave a loop",
        ranks=gone,
        confidence=Confidence.MEDIUM,
        location=victim.location,
    )


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps all ranks came through."""
    return f"{min(fact.steps for fact in facts.values())} training steps on every rank"


def _kind(fact: Facts) -> str:
    return (fact.error or "").partition(":")[0] + str(fact.step)


def _victims(raised: Mapping[int, Facts], blamed: tuple[int, ...]) -> str:
    others = sorted(set(raised) - set(blamed))
    shown = ", ".join(str(rank) for rank in others)
    return f" (rank {shown} failed after it)" if others else ""


def _user_line(error: BaseException) -> Location | None:
    from ddpcheck.watch.callsite import user_frame

    frame = user_frame(error)
    return Location(frame.filename, frame.lineno or 0, frame.name) if frame else None
