"""Ranks average their loss over different numbers of targets.

Why it matters
    A mean over this rank's valid targets, by cross_entropy with ignore_index, or by a sum that is
    divided by their number, is averaged by DDP once more. Where one rank has 2 valid tokens and
    another 8, a token of the first weighs four times as much as one of the second: the training
    depends on the number of GPUs, and is not that of one GPU with all of the batch.

What to do
    Sum (reduction="sum"), all-reduce the number of valid targets of the step, and backpropagate
    sum * world_size / number, as DDP divides by the world size. Means that are weighted in such a
    way are known by the gradient that comes to them. Not seen: means within compiled functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median_low
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.means import Mean, may_be_chance, misplaced_share
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import listed

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

# Void pixels of street scenes misplace 1 to 3 % of the weight. Four texts a rank, whose lengths
# deviate by half of their mean, misplace 7 % on 2 ranks and 10 % on many: 0.28 and 0.4 times the
# relative deviation of a rank's count.
MISPLACED_RATIO = 0.05


class Facts(msgspec.Struct, frozen=True):
    """A rank's means that were backpropagated, and their lines; ``group`` averages gradients."""

    means: tuple[Mean, ...]
    lines: tuple[Location | None, ...]
    group: tuple[int, ...]


class Observer:
    """Counts what each mean of the training is over."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.means import Means

        self._ctx = ctx
        self._group: tuple[int, ...] = ()
        self._means = Means()
        self.on_averaged = self._means.on_averaged
        self.on_loss = self._means.on_loss
        self.on_step = self._means.on_step

    def on_built(self, live: Trained) -> None:
        """Remember who trains together: at the end of the script there may be no group."""
        from ddpcheck.watch.replicas import group_of

        if live.ddp is not None:
            self._group = group_of(live.ddp)

    def on_sharded(self, _module: object, mesh: Any, _location: Location | None) -> None:
        """Remember who shards a model, and so averages its gradients."""
        every = range(self._ctx.world_size)
        self._group = tuple(every if mesh is None else sorted(mesh.mesh.flatten().tolist()))

    def facts(self) -> Facts:
        """Return the counts; raises Skip where there is nothing that ranks could average."""
        self._ctx.require_watch()
        if not self._group:
            raise Skip("no model was trained through DistributedDataParallel or fully_shard")
        means = self._means.read()
        if not means:
            raise Skip("no mean over targets was backpropagated")
        return Facts(means, self._means.lines, self._group)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line whose means ranks take over different numbers of targets."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    lines = (each for ranks in groups.values() for each in _by_line({r: facts[r] for r in ranks}))
    found = (_judged(location, moments) for location, moments in lines)
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many means were compared."""
    return f"{min(len(own.means) for own in facts.values())} means over targets compared"


def _by_line(
    facts: Mapping[int, Facts],
) -> Iterator[tuple[Location | None, list[dict[int, Mean]]]]:
    """Yield for each line its moments: the means that all ranks took there at the same time."""
    told = {
        rank: {(own.lines[m.line], m.step, m.number): m for m in own.means}
        for rank, own in facts.items()
    }
    own = facts[min(facts)]
    common = [key for key in told[min(told)] if all(key in each for each in told.values())]
    for location in own.lines:
        keys = [key for key in common if key[0] == location]
        yield location, [{rank: each[key] for rank, each in told.items()} for key in keys]


def _judged(location: Location | None, moments: list[dict[int, Mean]]) -> Finding | None:
    shares = [misplaced_share(list(each.values())) for each in moments]
    if max(shares, default=0.0) < MISPLACED_RATIO or _are_masked_at_random(moments):
        return None
    typical = median_low(shares)
    at, worst = max(zip(shares, moments, strict=True), key=lambda each: each[0])
    is_usual = typical >= MISPLACED_RATIO
    told = listed(f"{_over(mean)} on rank {rank}" for rank, mean in worst.items())
    step = worst[min(worst)].step
    # A last batch that is smaller on one rank is no matter.
    return Finding(
        title="ranks average their loss over different numbers of targets"
        + ("" if is_usual else f" in step {step}"),
        message=f"the mean is over {told} targets in step {step}, where {at:.0%} of the weight lies "
        f"on other targets than in one mean over all of them; in a typical step {typical:.0%}, "
        f"limit {MISPLACED_RATIO:.0%}",
        fix='sum with reduction="sum", and backpropagate sum * world_size / the number of valid '
        "targets of all ranks (all-reduced): DDP takes the mean of the ranks' means",
        ranks=tuple(sorted(worst)),
        severity=Severity.WARNING if is_usual else Severity.INFO,
        confidence=Confidence.HIGH if is_usual else Confidence.MEDIUM,
        location=location,
        evidence={
            "misplaced_share": typical,
            "counted": {str(rank): mean.counted for rank, mean in sorted(worst.items())},
        },
    )


def _over(mean: Mean) -> str:
    return f"{mean.counted} of {mean.targets}" if mean.targets > mean.counted else f"{mean.counted}"


def _are_masked_at_random(moments: list[dict[int, Mean]]) -> bool:
    """Return whether it may be chance alone how many targets are ignored, as for masked words."""
    are_scattered = any(mean.is_scattered for each in moments for mean in each.values())
    return are_scattered and may_be_chance([[m.counted for m in each.values()] for each in moments])
