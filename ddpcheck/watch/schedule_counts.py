"""Count how many steps schedulers make for each step of their optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import msgspec

from ddpcheck.finding import Location
from ddpcheck.measures.schedule import Pace
from ddpcheck.target.live import Trained
from ddpcheck.watch.lengths import batches_in
from ddpcheck.watch.schedules import planned_steps, rises

KEPT_COUNT = 16
# Of the largest rate so far: no schedule goes on from there, unless it ends at 0.
ZERO_RATIO = 1e-9


@dataclass
class Count:
    """One scheduler's: the steps ``made`` in all, and ``now`` since the optimizer's last.

    ``each`` has them with the number of backward passes, for each of the optimizer's steps until
    the plan was at its end; ``idle`` is how many came after that.
    """

    pace: Pace
    ends: bool
    made: int = 0
    now: int = 0
    each: list[tuple[int, int]] = field(default_factory=list)
    idle: int = 0

    def is_over(self) -> bool:
        """Return whether the plan is at its end, where the training should be."""
        return self.ends and 0 < self.pace.planned <= self.made


class ScheduleCounts:
    """An observer of the schedulers of the optimizer that is watched."""

    def __init__(self) -> None:
        self._live: Trained | None = None
        self._counts: dict[int, Count] = {}
        self._backwards = 0
        self._steps = 0
        self._rate = self._largest_rate = 0.0

    def on_built(self, live: Trained) -> None:
        """Remember the training, whose optimizer may come later."""
        self._live = live

    def on_loss(self, _step: int, _loss: object) -> None:
        """Count a backward pass."""
        self._backwards += 1

    def on_scheduled(self, scheduler: Any, location: Location | None) -> None:
        """Count a step of a scheduler; its plan is read when it makes its first."""
        if self._groups() is not scheduler.optimizer.param_groups:
            return
        count = self._counts.get(id(scheduler))
        if count is None:
            pace = Pace(type(scheduler).__name__, location, planned_steps(scheduler))
            count = Count(pace, ends=not rises(scheduler))
            if len(self._counts) < KEPT_COUNT:
                self._counts[id(scheduler)] = count
        count.now += 1
        count.made = int(getattr(scheduler, "last_epoch", count.made + 1))

    def on_gradients(self, _step: int) -> None:
        """Note which plans are at their end, though the optimizer is about to make a step."""
        rate = max((_number(group.get("lr", 0.0)) for group in self._groups()), default=0.0)
        self._rate, self._largest_rate = rate, max(self._largest_rate, rate)
        is_zero = rate <= ZERO_RATIO * self._largest_rate and self._largest_rate > 0
        for count in self._counts.values():
            count.idle += is_zero or count.is_over()

    def on_step(self, _step: int) -> None:
        """Begin to count anew."""
        self._steps += 1
        for count in self._counts.values():
            if not count.idle and not count.is_over():
                count.each.append((count.now, self._backwards))
            count.now = 0
        self._backwards = 0

    def seen(self) -> tuple[Pace, ...]:
        """Return the paces of the schedulers that went on long enough to have one."""
        batches = batches_in(self._live.loader) if self._live is not None else None
        counted = [each for each in self._counts.values() if each.each]
        rest = self._rate / self._largest_rate if self._largest_rate else 1.0
        paces = (_pace(each, self._steps, batches or 0) for each in counted)
        return tuple(msgspec.structs.replace(each, rest=rest) for each in paces)

    def _groups(self) -> Sequence[Mapping[str, Any]]:
        optimizer = self._live.optimizer if self._live is not None else None
        return optimizer.param_groups if optimizer is not None else ()


def _pace(count: Count, total: int, batches: int) -> Pace:
    advances = [made for made, _ in count.each]
    passes = [backwards for _, backwards in count.each]
    return msgspec.structs.replace(
        count.pace,
        steps=len(count.each),
        total=total,
        fewest=min(advances),
        most=max(advances),
        backwards=sum(passes) / len(passes),
        per_backward=advances == passes,
        idle=count.idle,
        batches=batches,
    )


def _number(rate: Any) -> float:
    # A rate that is a tensor may be on a GPU, and is not waited for: it passes for one above 0.
    return float(rate) if isinstance(rate, Real) else 1.0
