"""Ranks evaluate with different running statistics of BatchNorm.

Why it matters
    Each rank averages the statistics of its own batches. DistributedDataParallel hands rank 0's out
    at the next forward pass through it, and never with broadcast_buffers=False: an evaluation of
    model.module after the last step is one of as many models as there are ranks, and what rank 0
    saves is none of the others. The accuracy that is logged is not that of the checkpoint.

What to do
    Before evaluating and saving, average running_mean and running_var over the ranks (all_reduce),
    or broadcast rank 0's; on GPUs, SyncBatchNorm.convert_sync_batchnorm(model) before wrapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.running_statistics import Apart, Evaluation, apart

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.running_statistics import RunningStatistics

# Measured with batches of 8 and 16 of one distribution, of images whose contrasts differ by a factor
# of 4: up to 0.01 deviations and a factor of 1.18 with statistics that are handed out at each step,
# 1.43 with broadcast_buffers=False. More ranks, and rarer images, are a little further apart.
MEANS_LIMIT_DEVIATIONS = 0.5
VARIANCES_LIMIT_RATIO = 2.0


class Facts(msgspec.Struct, frozen=True):
    """A rank's evaluations, and the ranks that hold its model."""

    group: tuple[int, ...]
    evaluations: tuple[Evaluation, ...]


class Observer:
    """Looks at the statistics as evaluations begin."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._group: tuple[int, ...] = ()
        self._watch: RunningStatistics | None = None

    def on_built(self, live: Trained) -> None:
        """Put a hook on the model, which is about to be trained: what was before is no matter."""
        from ddpcheck.watch.replicas import group_of
        from ddpcheck.watch.running_statistics import RunningStatistics

        if live.ddp is not None and self._ctx.watches:
            self._group = group_of(live.ddp)
            self._watch = RunningStatistics(live.module)

    def facts(self) -> Facts:
        """Return the evaluations; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if self._watch is None:
            raise Skip("no model was trained through DistributedDataParallel")
        return Facts(self._group, self._watch.close())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose ranks evaluated with other statistics."""
    groups = grouped({rank: own.group for rank, own in facts.items()})
    found = (_of_group({rank: facts[rank] for rank in ranks}) for ranks in groups.values())
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many evaluations were compared."""
    count = max(len(own.evaluations) for own in facts.values())
    return f"{count} evaluations of a model with BatchNorm begun"


def _of_group(facts: Mapping[int, Facts]) -> Finding | None:
    """Return a finding of the evaluation with the largest difference, if there is any."""
    evaluating = {rank: own.evaluations for rank, own in facts.items() if own.evaluations}
    together = min((len(own) for own in evaluating.values()), default=0) * (len(evaluating) > 1)
    widest = [
        (_widest([own[number] for own in evaluating.values()]), number)
        for number in range(together)
    ]
    different = [(each, number) for each, number in widest if _size(each) > 0]
    if not different:
        return None
    most, number = max(different, key=lambda pair: _size(pair[0]))
    return _finding(most, evaluating, number)


def _widest(ranks: list[Evaluation]) -> Apart:
    layers = zip(*(each.layers for each in ranks), strict=False)
    return max((apart(layer) for layer in layers), key=_size, default=Apart("", 0.0, 1.0))


def _size(each: Apart) -> float:
    """Return how far apart they are, where 1 is the bound of either."""
    return max(
        each.deviations / MEANS_LIMIT_DEVIATIONS,
        (each.ratio - 1.0) / (VARIANCES_LIMIT_RATIO - 1.0),
    )


def _finding(most: Apart, evaluating: Mapping[int, tuple[Evaluation, ...]], number: int) -> Finding:
    drifts = _size(most) > 1.0
    return Finding(
        title="ranks evaluate with different statistics of BatchNorm",
        message=f"at the start of evaluation {number} the running means of {most.name} are "
        f"{most.deviations:.2f} deviations apart (limit {MEANS_LIMIT_DEVIATIONS}), its variances by a "
        f"factor of {most.ratio:.2f} (limit {VARIANCES_LIMIT_RATIO}), in the median channel",
        fix="average running_mean and running_var over the ranks, or broadcast rank 0's, before "
        "evaluating and saving; on GPUs, convert to SyncBatchNorm",
        ranks=tuple(evaluating),
        severity=Severity.WARNING if drifts else Severity.INFO,
        confidence=Confidence.HIGH if drifts else Confidence.MEDIUM,
        location=evaluating[min(evaluating)][number].location,
    )
