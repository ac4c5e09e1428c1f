"""Rehearse a short training of the target under the observers."""

from __future__ import annotations

from ddpcheck.check import Profile
from ddpcheck.errors import TargetError
from ddpcheck.target.live import LiveTarget, moved
from ddpcheck.watch.stream import EventStream

# Two steps at least: a bucket that DDP did not finish in one step raises in the next.
STEPS = {Profile.QUICK: 2, Profile.STANDARD: 4, Profile.FULL: 20}


def rehearse(live: LiveTarget, steps: int, stream: EventStream) -> None:
    """Train ``steps`` steps; what the training raises is an event, and raised again."""
    step = 0
    try:
        stream.emit("built", live)
        batches = live.batches()
        for step in range(steps):
            _train_step(live, step, next(batches), stream)
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        stream.emit("raise", step, error)
        raise


def _train_step(live: LiveTarget, step: int, batch: object, stream: EventStream) -> None:
    stream.emit("batch", step, batch)
    live.optimizer.zero_grad()
    loss = live.loss(live.model, moved(batch, live.device))
    stream.emit("loss", step, loss)
    loss.backward()
    stream.emit("gradients", step)
    live.optimizer.step()
    stream.emit("step", step)
