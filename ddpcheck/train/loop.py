"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from ddpcheck.errors import ExitCode
from ddpcheck.train.exchange import Exchange, steps_between
from ddpcheck.train.manifest import Past
from ddpcheck.train.progress import Progress
from ddpcheck.train.speed import UNTIMED_STEPS, Stopwatch
from ddpcheck.train.together import EveryRankError
from ddpcheck.train.trainer import Trainer

# Points of the loss curve in the report.
MAX_POINTS = 200
NOTHING_YET = Past()


@dataclass(frozen=True)
class Alongside:
    """What goes along with the steps of a training.

    save: called every ``save_every`` steps, if that is not 0, and after the last step; by all ranks
    alike. asked_to_stop: called after every step; returns whether this rank is to stop. progress:
    on one rank.
    """

    save: Callable[[Past], None]
    save_every: int = 0
    asked_to_stop: Callable[[], bool] = lambda: False
    progress: Progress | None = None


def train(
    trainer: Trainer,
    batches: Iterator[tuple[int, Tensor]],
    alongside: Alongside,
    past: Past = NOTHING_YET,
) -> Past:
    """Train from ``past`` to the last step, or until a rank is to stop; return what is past then.

    All ranks stop after the same step, once it is saved. Raises EveryRankError when the loss is no
    number any more; what was saved before stays.
    """
    losses: list[tuple[int, Tensor]] = []
    watch = Stopwatch(trainer.device, total_s=past.timed_s)
    untimed = past.step + min(UNTIMED_STEPS, (trainer.steps - past.step) // 2)
    tokens = untimed_tokens = 0
    exchange, between = Exchange(trainer.everyone), steps_between(trainer.device)
    now = past
    for step in range(past.step + 1, trainer.steps + 1):
        if step == untimed + 1:
            untimed_tokens = tokens
            watch.start()
        _, batch = next(batches)
        done = trainer.step(step, batch)
        tokens += done.predictions * trainer.parallel.data.size
        asked = alongside.asked_to_stop()
        saving = is_saved(step, trainer.steps, alongside.save_every)
        exchanging = saving or step == past.step + 1 or step % between == 0
        if exchanging or is_point(step, trainer.steps):
            exchange.note(step, done.loss)
        if not exchanging:
            continue
        heard = exchange.talk(asked=asked)
        losses += (each for each in heard.losses if is_point(each[0], trainer.steps))
        _, loss = heard.losses[-1]
        if alongside.progress is not None:
            alongside.progress.show(step, tokens, loss)
        if saving or heard.is_to_stop:
            # Writing is not training: it would make the speed depend on the disk.
            with watch.paused():
                require_finite(step, loss)
                timed = tokens - untimed_tokens if step > untimed else 0
                now = _after(past, step, losses, timed, watch.total_s)
                alongside.save(now)
        if heard.is_to_stop:
            break
    return now


def _after(
    past: Past, step: int, curve: list[tuple[int, Tensor]], timed: int, timed_s: float
) -> Past:
    return Past(
        step=step,
        loss=(*past.loss, *((step, loss.item()) for step, loss in curve)),
        timed_tokens=past.timed_tokens + timed,
        timed_s=timed_s,
        resumed_at=past.resumed_at,
    )


def is_saved(step: int, steps: int, save_every: int) -> bool:
    """Return whether there is a checkpoint after ``step``: the last one, and every N-th."""
    return step == steps or (save_every > 0 and step % save_every == 0)


def is_point(step: int, steps: int) -> bool:
    """Return whether ``step`` is on the loss curve: the first, the last, and some between."""
    every = -(-steps // (MAX_POINTS - 1))
    return step in (1, steps) or step % every == 0


def require_finite(step: int, loss: Tensor) -> None:
    """Raise EveryRankError unless the loss, the same on all ranks, is a number."""
    value = loss.item()
    if not math.isfinite(value):
        raise EveryRankError(
            f"the loss is {value} at step {step}: check the data, or train with --precision fp32",
            ExitCode.FINDINGS,
        )
