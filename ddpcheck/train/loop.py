"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from ddpcheck.errors import ExitCode
from ddpcheck.target.minigpt import count_predictions
from ddpcheck.train.progress import Progress
from ddpcheck.train.speed import UNTIMED_STEPS, Stopwatch
from ddpcheck.train.together import EveryRankError
from ddpcheck.train.trainer import Trainer

CHECKPOINT_STEPS = 100
# Points of the loss curve in the report.
MAX_POINTS = 200

# Called with (steps done, epoch).
Save = Callable[[int, int], None]


@dataclass(frozen=True)
class History:
    """What a run showed: [step, mean loss over all ranks in nats] and tokens of all ranks."""

    loss: list[tuple[int, float]]
    tokens_per_s: float


def train(
    trainer: Trainer,
    batches: Iterator[tuple[int, Tensor]],
    save: Save,
    progress: Progress | None = None,
) -> History:
    """Train for all steps; calls ``save`` every 100 steps and after the last.

    Raises EveryRankError when the loss is no number any more; what was saved before stays.
    """
    points: list[tuple[int, Tensor]] = []
    watch = Stopwatch(trainer.device)
    untimed = min(UNTIMED_STEPS, trainer.steps // 2)
    tokens = untimed_tokens = 0
    for step in range(1, trainer.steps + 1):
        if step == untimed + 1:
            untimed_tokens = tokens
            watch.start()
        epoch, batch = next(batches)
        share = trainer.step(step, batch)
        tokens += count_predictions(batch) * trainer.world_size
        if is_point(step, trainer.steps):
            points.append((step, sum_over_ranks(share, trainer.world_size)))
            if progress is not None:
                progress.show(step, tokens, points[-1][1].item)
        if step % CHECKPOINT_STEPS == 0 or step == trainer.steps:
            # Writing is not training: it would make the speed depend on the disk.
            watch.stop()
            require_finite(step, sum_over_ranks(share, trainer.world_size))
            save(step, epoch)
            watch.start()
    losses = [(step, loss.item()) for step, loss in points]
    return History(losses, (tokens - untimed_tokens) / watch.total_s)


def is_point(step: int, steps: int) -> bool:
    """Return whether ``step`` is on the loss curve: the first, the last, and some between."""
    every = -(-steps // (MAX_POINTS - 1))
    return step in (1, steps) or step % every == 0


def sum_over_ranks(share: Tensor, world_size: int) -> Tensor:
    """Return the sum of all ranks' shares, on the device: reading it is what waits."""
    total = share.clone()
    if world_size > 1:
        dist.all_reduce(total)
    return total


def require_finite(step: int, loss: Tensor) -> None:
    """Raise EveryRankError unless the loss, the same on all ranks, is a number."""
    value = loss.item()
    if not math.isfinite(value):
        raise EveryRankError(
            f"the loss is {value} at step {step}: check the data, or train with --precision fp32",
            ExitCode.FINDINGS,
        )
