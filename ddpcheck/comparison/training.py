"""What the reference training showed then and now, where both reports have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import isfinite
from typing import Any

from ddpcheck.change import Change, Course, Part
from ddpcheck.comparison.both import Both, Told
from ddpcheck.comparison.speed import gained

# Trainings that differ in one of these go another way.
SETUP = ("strategy", "mesh", "options", "precision", "steps", "global_batch", "world_size")
ALONE = "one number each: how much it varies is not known"


def training_changes(both: Both) -> Told:
    """Return how loss and speed of the training changed.

    Its speed is one number a run, with no spread: a change is told, and counts as no worse. The
    loss counts where it rose by more than the bound, and by more than the largest step between two
    neighbouring points in the last quarter of both curves, which is how much it wavers.
    """
    old, new = both.old.training, both.new.training
    if not old or not new:
        return Told()
    other = [name for name in SETUP if old.get(name) != new.get(name)]
    if other:
        told = (f"{name} {new.get(name)} instead of {old.get(name)}" for name in other)
        return Told(left_out=[f"training: {', '.join(told)}"])
    return Told([*_loss(old, new, both.bound_ratio), *_speed(old, new, both.bound_ratio)])


def _loss(old: Mapping[str, Any], new: Mapping[str, Any], bound_ratio: float) -> Iterator[Change]:
    before, now = _number(old, "final_loss"), _number(new, "final_loss")
    if before is None or now is None:
        return
    noise = max(bound_ratio * abs(before), _wavering(old), _wavering(new))
    if isfinite(before) == isfinite(now) and not abs(now - before) > noise:
        return
    yield Change(
        part=Part.TRAINING,
        what="final loss",
        before=f"{before:.4f}",
        now=f"{now:.4f}",
        course=Course.BETTER if now < before or not isfinite(before) else Course.WORSE,
        ratio=1 - now / before if before and isfinite(now / before) else None,
    )


def _speed(old: Mapping[str, Any], new: Mapping[str, Any], bound_ratio: float) -> Iterator[Change]:
    before, now = _number(old, "tokens_per_s"), _number(new, "tokens_per_s")
    if not before or not now or abs(now / before - 1) <= bound_ratio:
        return
    yield Change(
        part=Part.TRAINING,
        what="training",
        before=f"{before:,.0f} tokens/s",
        now=f"{now:,.0f} tokens/s",
        ratio=gained(now, before),
        note=ALONE,
    )


def _wavering(training: Mapping[str, Any]) -> float:
    points = training.get("loss")
    losses = [float(p[1]) for p in points if _is_point(p)] if isinstance(points, list) else []
    last = losses[-max(2, len(losses) // 4) :]
    return max((abs(after - before) for before, after in pairwise(last)), default=0.0)


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) > 1 and isinstance(point[1], int | float)


def _number(training: Mapping[str, Any], name: str) -> float | None:
    """Return a number, of a diverged training nan, or None where there is none."""
    value: Any = training.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known or value in ("nan", "inf", "-inf") else None
