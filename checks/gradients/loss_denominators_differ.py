"""Ranks average their loss over different numbers of targets.

Why it matters
    A mean over this rank's valid targets, by cross_entropy with ignore_index, or by a sum that is
    divided by their number, is averaged by DDP once more. Where one rank has 2 valid tokens and
    another 8, a token of the first weighs four times as much as one of the second: the training
    depends on the number of GPUs, and is not that of one GPU with all of the batch.

What to do
    Sum (reduction="sum"), all-reduce the number of valid targets of the step, and backpropagate
    sum * world_size / number, as DDP divides by the world size. Means that are weighted in such a
    way are known by the gradient that comes to them. Not seen: means within compiled functions,
    and gradients that are averaged without DDP in several parts (buckets).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.means import (
    Mean,
    Moments,
    are_masked_at_random,
    by_line,
    in_words,
    misplaced_share,
)
from ddpcheck.measures.peers import grouped

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained

# Void pixels of street scenes misplace 1 to 3 % of the weight. Four texts a rank, whose lengths
# deviate by half of their mean, misplace 7 % on 2 ranks and 10 % on many: 0.28 and 0.4 times the
# relative deviation of a rank's count.
MISPLACED_RATIO = 0.05


class Facts(msgspec.Struct, frozen=True):
    """A rank's means that were backpropagated, and their lines; ``group`` averages gradients.

    ``own_hook`` is whether a hook of the script's own, on DDP or a tensor, may weigh them.
    """

    means: tuple[Mean, ...]
    lines: tuple[Location | None, ...]
    group: tuple[int, ...]
    own_hook: bool = False


class Observer:
    """Counts what each mean of the training is over."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.means import Means
        from ddpcheck.watch.weighings import Weighings

        self._ctx = ctx
        self._group: tuple[int, ...] = ()
        self._means, self._weighings = Means(), Weighings()
        self.parts = (self._means, self._weighings)

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
        group = self._group or self._weighings.group
        if not group:
            raise Skip("no gradients were averaged by DDP, fully_shard or an all_reduce")
        means = self._means.read(self._weighings, by_hand=not self._group)
        if not means:
            raise Skip("no mean over targets was backpropagated")
        has_own_hook = self._weighings.has_hook or self._means.has_own_hook()
        return Facts(means, self._means.lines, group, has_own_hook)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line whose means ranks take over different numbers of targets."""
    groups = grouped({rank: own.group for rank, own in facts.items()}).values()
    own = [{rank: facts[rank] for rank in ranks} for ranks in groups]
    found = (_judged(*line, each) for each in own for line in by_line(each))
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many means were compared."""
    return f"{min(len(own.means) for own in facts.values())} means over targets compared"


def _judged(
    location: Location | None, means: Sequence[Moments], facts: Mapping[int, Facts]
) -> Finding | None:
    """Judge the mean of a line whose weights are displaced the most, typically."""
    shares = [[misplaced_share(list(each.values())) for each in moments] for moments in means]
    found = [
        (median_low(own), max(own), moments[own.index(max(own))])
        for own, moments in zip(shares, means, strict=True)
        if max(own) >= MISPLACED_RATIO and not are_masked_at_random(moments)
    ]
    if not found:
        return None
    typical, at, worst = max(found, key=lambda each: each[:2])
    # A last batch that is smaller on one rank is no matter; a hook may weigh what DDP does not.
    own_hook = any(own.own_hook for own in facts.values())
    is_usual = typical >= MISPLACED_RATIO and not own_hook
    counted = {str(rank): mean.counted for rank, mean in sorted(worst.items())}
    step, made_at = worst[min(worst)].step, worst[min(worst)].made_at
    return Finding(
        title="ranks average their loss over different numbers of targets"
        + ("" if typical >= MISPLACED_RATIO else f" in step {step}"),
        message=f"the mean is over {in_words(worst)} in step {step}, where {at:.0%} of the weight lies "
        f"elsewhere than in one mean over all; in a typical step {typical:.0%}, limit "
        f"{MISPLACED_RATIO:.0%}"
        + ("; unless a hook of the script's own weighs them" if own_hook else ""),
        fix='sum with reduction="sum", and backpropagate sum * world_size / the number of valid '
        "targets of all ranks (all-reduced): the average of the ranks is divided by world_size",
        ranks=tuple(sorted(worst)),
        severity=Severity.WARNING if is_usual else Severity.INFO,
        confidence=Confidence.HIGH if is_usual else Confidence.MEDIUM,
        location=location if made_at is None else facts[min(worst)].lines[made_at],
        evidence={"misplaced_share": typical, "counted": counted},
    )
