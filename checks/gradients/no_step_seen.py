"""No step of an optimizer was seen, so nothing of the training was checked.

Why it matters
    A report without findings on a training that nobody saw is worth nothing. The script may have
    started ranks that ddpcheck does not follow, ended before its first step, or update its
    parameters without a torch.optim.Optimizer.

What to do
    Start the ranks from outside (torchrun ... -m ddpcheck watch SCRIPT, or ddpcheck watch SCRIPT)
    instead of with torch.multiprocessing.spawn; see what the script prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

LEAST_STEPS = 2  # another rank's first step may need nobody else
# What only those make that train.
DDP, BACKWARD = "DistributedDataParallel", "backward"


class Facts(msgspec.Struct, frozen=True):
    """How many steps were seen; whether the training raised, and whether the script has ended.

    ``prepared``: an optimizer or a model in DDP was made; ``works``: it made backward passes, and sent
    tensors to others. ``group`` are the ranks that DDP keeps alike.
    """

    steps: int
    raised: bool = False
    ended: bool = False
    prepared: bool = False
    group: tuple[int, ...] = ()
    works: bool = False


class Observer:
    """Counts the steps."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._facts = Facts(0)
        self._backward = self._sends = False

    def on_optimizing(self, *_told: object) -> None:
        """Note that this rank is to train."""
        self._note(prepared=True)

    def on_called(self, call: Any) -> None:
        """Note what it made of that which those make who train."""
        if call.name == DDP:
            self._note(prepared=True)
        self._backward = self._backward or call.name == BACKWARD

    def on_passed(self, _ranks: object) -> None:
        """Note that it sends another one tensors, or gets some."""
        self._sends = True

    def on_built(self, live: Trained) -> None:
        """Note who trains this model with this rank."""
        from ddpcheck.watch.replicas import group_of

        if live.ddp is not None:
            self._note(group=group_of(live.ddp))

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._note(steps=step + 1)

    def on_raise(self, *_told: object) -> None:
        """Note that something else has gone wrong."""
        self._note(raised=True)

    def on_ended(self) -> None:
        """Note that no step will come any more."""
        self._note(ended=True)

    def facts(self) -> Facts:
        """Return what was seen."""
        return msgspec.structs.replace(self._facts, works=self._backward and self._sends)

    def _note(self, **changes: Any) -> None:
        self._facts = msgspec.structs.replace(self._facts, **changes)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that made no step, unless one of them raised.

    Who stands still before its first step, as others do, is told of by where it stands.
    """
    others_step = max(own.steps for own in facts.values()) >= LEAST_STEPS
    idle = [r for r, own in sorted(facts.items()) if not own.steps and (own.ended or others_step)]
    if any(own.raised for own in facts.values()):
        return []
    aside = [rank for rank in idle if _is_aside(rank, facts)]
    unseen = [rank for rank in idle if rank not in aside]
    told = [(unseen, _finding), (aside, _told)]
    return [finding(ranks, len(facts)) for ranks, finding in told if ranks]


def _is_aside(rank: int, facts: Mapping[int, Facts]) -> bool:
    """Return whether a rank was never to make a step: it evaluates, or works for a server."""
    trained = [own for own in facts.values() if own.steps]
    is_awaited = any(rank in own.group for own in trained)
    own = facts[rank]
    return bool(trained) and not is_awaited and (own.works or not own.prepared)


def _title(ranks: Sequence[int], count: int) -> str:
    some = "" if len(ranks) == count else f" on {len(ranks)} of {count} ranks"
    return f"no step of an optimizer was seen{some}"


def _finding(ranks: Sequence[int], count: int) -> Finding:
    return Finding(
        title=_title(ranks, count),
        message=f"rank {spans(ranks)} made no step: nothing of the training was checked there",
        fix="start the ranks from outside (torchrun ... -m ddpcheck watch SCRIPT), if the "
        "script starts its own; see what it printed",
        ranks=tuple(ranks),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if len(ranks) == count else Confidence.MEDIUM,
    )


def _told(ranks: Sequence[int], count: int) -> Finding:
    return Finding(
        title=_title(ranks, count),
        message=f"rank {spans(ranks)} is in no group of DDP that trains: it does other work, an "
        "evaluation say, or computes gradients for those that make the steps",
        fix="nothing, if that is meant; else train on all ranks, with the same model in DDP",
        ranks=tuple(ranks),
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
    )


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were seen."""
    return f"{' or '.join(map(str, sorted({f.steps for f in facts.values()})))} steps seen on each rank"
