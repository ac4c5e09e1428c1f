"""Some ranks skip a backward pass that others make.

Why it matters
    DistributedDataParallel pairs the ranks' backward passes by their order alone. A rank that
    leaves one out, because its loss was not finite, say, averages its next gradients with those
    of another step from then on; nothing is said until some rank waits for ever, at the end of
    the epoch. A forward pass that only one rank makes is as bad where the model has buffers: they
    are broadcast.

What to do
    Let all ranks decide together: all-reduce the flag (MAX) before the step is skipped. Log and
    evaluate through model.module, or on every rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

KEPT_STEPS = 2000


class Passes(msgspec.Struct, frozen=True, array_like=True):
    """What one step of the optimizer took: batches, forward passes of training, and backward."""

    batches: int = 0
    forward: int = 0
    backward: int = 0


class Facts(msgspec.Struct, frozen=True):
    """A rank's steps; ``group`` are the ranks of its DDP, ``broadcasts`` whether it has buffers."""

    steps: tuple[Passes, ...]
    group: tuple[int, ...] = ()
    broadcasts: bool = False


class Observer:
    """Counts passes between the steps of the optimizer."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._group: tuple[int, ...] = ()
        self._broadcasts = False
        self.steps: list[Passes] = []
        self._now = Passes()

    def on_built(self, live: Trained) -> None:
        """Remember who trains together: at the end of the script there may be no group."""
        from ddpcheck.watch.replicas import group_of

        if live.ddp is not None:
            self._group = group_of(live.ddp)
            buffer = next(live.module.buffers(), None)
            self._broadcasts = bool(live.ddp.broadcast_buffers and buffer is not None)

    def on_batch(self, _step: int, _batch: object) -> None:
        """Count a batch."""
        self._now = msgspec.structs.replace(self._now, batches=self._now.batches + 1)

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Count a forward pass."""
        self._now = msgspec.structs.replace(self._now, forward=self._now.forward + 1)

    def on_loss(self, _step: int, _loss: object) -> None:
        """Count a backward pass."""
        self._now = msgspec.structs.replace(self._now, backward=self._now.backward + 1)

    def on_step(self, _step: int) -> None:
        """Begin another step."""
        if len(self.steps) < KEPT_STEPS:
            self.steps.append(self._now)
        self._now = Passes()

    def facts(self) -> Facts:
        """Return the counts; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if not self._group:
            raise Skip("no model was trained through DistributedDataParallel")
        return Facts(tuple(self.steps), self._group, self._broadcasts)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group of ranks, of the first step that they do not take alike."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    found = (_first_unlike({rank: facts[rank] for rank in ranks}) for ranks in groups.values())
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many steps were compared."""
    return f"{min(len(own.steps) for own in facts.values())} steps compared"


def _first_unlike(facts: Mapping[int, Facts]) -> Finding | None:
    for step in range(min(len(own.steps) for own in facts.values())):
        passes = {rank: own.steps[step] for rank, own in facts.items()}
        # Ranks may accumulate other numbers of backward passes: each has its forward pass.
        left_over = {rank: own.forward - own.backward for rank, own in passes.items()}
        more = tuple(r for r, count in left_over.items() if count > min(left_over.values()))
        if more:
            rest = tuple(rank for rank in left_over if rank not in more)
            return _finding(step, passes, min(more, rest, key=len), facts)
    return None


def _finding(
    step: int, passes: Mapping[int, Passes], odd: tuple[int, ...], facts: Mapping[int, Facts]
) -> Finding:
    own, rest = passes[odd[0]], next((p for r, p in passes.items() if r not in odd), None)
    others = f", the others {_told(rest)}" if rest is not None else ""
    # A look at the model on one rank takes no batch, and harms nobody without buffers.
    is_skip = len({each.batches for each in passes.values()}) > 1
    harmful = is_skip or any(each.broadcasts for each in facts.values())
    return Finding(
        title=f"rank {spans(odd)} makes other passes than the rest in step {step}",
        message=f"rank {odd[0]} {_told(own)} in step {step}{others}"
        + ("; backward passes pair off wrongly from there" if is_skip else "")
        + ("; each forward pass broadcasts buffers" if harmful and not is_skip else ""),
        fix="decide on all ranks together whether to skip (all-reduce the flag), and log or evaluate "
        "through model.module",
        ranks=odd,
        severity=Severity.ERROR if harmful else Severity.INFO,
        confidence=Confidence.HIGH if harmful else Confidence.MEDIUM,
    )


def _told(passes: Passes) -> str:
    return (
        f"took {passes.batches} batches, {passes.forward} forward and {passes.backward} backward "
        "passes"
    )
