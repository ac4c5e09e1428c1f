"""The steps of learning rate schedulers, and for how many steps they are planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    LambdaLR,
    LinearLR,
    LRScheduler,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
)

from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.replaced import Around, Replaced


class Schedules:
    """Tells ``scheduled`` or ``measured`` of each step that a script lets a scheduler make.

    See ``stream``.
    """

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._replaced = Replaced()
        self._depth = 0

    def install(self) -> None:
        """Go around each ``step`` of torch's schedulers; those of users call one of them."""
        for kind in _kinds_with_steps():
            self._replaced.put(kind, "step", self._stepping)
        self._replaced.tell_after(ReduceLROnPlateau, "step", self._measured)
        # Its first step is a part of its making.
        self._replaced.put(LRScheduler, "_initial_step", self._within)

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def _within(self, original: Around, scheduler: Any, *arguments: Any, **named: Any) -> Any:
        self._depth += 1
        try:
            return original(scheduler, *arguments, **named)
        finally:
            self._depth -= 1

    def _stepping(self, original: Around, scheduler: Any, *arguments: Any, **named: Any) -> Any:
        result = self._within(original, scheduler, *arguments, **named)
        # With an argument it is told where it is to be, and no step further.
        if not self._depth and not arguments and not named:
            with suppress(Exception):
                self._emit("scheduled", scheduler, users_line())
        return result

    def _measured(self, _result: Any, arguments: Any, _named: Any) -> None:
        self._emit("measured", arguments[0], users_line())


def _kinds_with_steps() -> Iterator[type[LRScheduler]]:
    """Yield the classes that have a ``step`` of their own, but what steps by a measure."""
    kinds = (kind for kind in vars(lr_scheduler).values() if isinstance(kind, type))
    for kind in kinds:
        is_counted = issubclass(kind, LRScheduler) and kind is not ReduceLROnPlateau
        if is_counted and "step" in vars(kind):
            yield kind


def planned_steps(scheduler: Any) -> int:
    """Return after how many steps a schedule is at its end, 0 where it has none, or says none.

    Source: the documentation of torch.optim.lr_scheduler, and the partial functions that
    transformers' get_..._schedule_with_warmup give to LambdaLR.
    """
    if isinstance(scheduler, SequentialLR):
        last = planned_steps(scheduler._schedulers[-1])
        return last and last + scheduler._milestones[-1] if scheduler._milestones else last
    if isinstance(scheduler, ChainedScheduler):
        return max(map(planned_steps, scheduler._schedulers))
    if isinstance(scheduler, LambdaLR):
        return _told_to(scheduler.lr_lambdas[0])
    if isinstance(scheduler, (LinearLR, PolynomialLR)):
        return int(scheduler.total_iters)
    if isinstance(scheduler, OneCycleLR):
        return int(scheduler.total_steps)
    return int(scheduler.T_max) if isinstance(scheduler, CosineAnnealingLR) else 0


def rises(scheduler: Any) -> bool:
    """Return whether the rate only goes up to the end of the plan: training goes on after it."""
    return isinstance(scheduler, LinearLR) and scheduler.end_factor >= scheduler.start_factor


def _told_to(function: Any) -> int:
    named = function.keywords if isinstance(function, partial) else {}
    return int(named.get("num_training_steps", 0))
