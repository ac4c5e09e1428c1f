"""Collectives, training steps and computing that are slower or quicker than they were.

A change counts where it is beyond the bound and beyond the noise of both runs: see ``is_slower``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ddpcheck.change import Change, Course, Part
from ddpcheck.comparison.both import Both, Told
from ddpcheck.measures.blocks import Block
from ddpcheck.measures.collective_speed import Speed, gbps, slowest
from ddpcheck.measures.spread import Spread, is_slower, seems_slower, spread_of
from ddpcheck.measures.words import listed, ranks_told, size

COLLECTIVES = "collectives/low-bandwidth"
STEPS = "performance/exposed-communication"
WATCHED_STEPS = "performance/waits-for-one-rank"
COMPUTING = "collectives/late-rank"
# Smaller messages are a matter of latency.
LEAST_BANDWIDTH_BYTES = 1 << 20
# Too few goes to tell the middle half of them from the rest.
LEAST_GOES = 4
T = TypeVar("T")
Times = Mapping[int, Sequence[float]]


class Timed(NamedTuple):
    """One thing that was timed then and now, and its speeds in words."""

    what: str
    old: Spread
    new: Spread
    before: str
    now: str


def collective_changes(both: Both) -> Told:
    """Return the collectives of which the slowest rank's time changed, size by size."""
    facts = both.facts(COLLECTIVES)
    if not all(facts):
        return Told()
    why = _incomparable(both)
    decoded = [_decoded(each, "speeds", tuple[Speed, ...]) for each in facts]
    if why or None in decoded:
        return _left_out("collectives", why or "a report of another version measured otherwise")
    old, new = ({each.name: each for each in slowest(told or {})} for told in decoded)
    timed = [_collective(old[name], new[name], both) for name in new if name in old]
    return _told(timed, both.bound_ratio)


def step_changes(both: Both) -> Told:
    """Return how the time of a training step changed, as the slowest rank saw it."""
    told = _steps(both, STEPS, lambda fact: fact["split"]["steps_s"])
    watched = _steps(both, WATCHED_STEPS, lambda fact: [_step_s(each) for each in fact["blocks"]])
    return Told([*told.changes, *watched.changes], [*told.left_out, *watched.left_out])


def computing_changes(both: Both) -> Told:
    """Return the ranks whose computing, apart from all waiting, is slower or quicker than it was."""
    facts = both.facts(COMPUTING)
    times = [_times(each, lambda fact: fact["turns"]["pace_s"]) for each in facts]
    kinds = [{rank: fact.get("kind") for rank, fact in each.items()} for each in facts]
    # A rank on a device of another model is told of among the devices.
    alike = [r for r in sorted(times[0].keys() & times[1].keys()) if kinds[0][r] == kinds[1][r]]
    found: dict[Course, dict[int, Timed]] = {}
    for rank in alike:
        old, new = (
            _spread(own[rank], [told[rank]]) for own, told in zip(times, facts, strict=True)
        )
        if old and new:
            course = _course(old, new, both.bound_ratio)
            found.setdefault(course, {})[rank] = _computed(rank, old, new)
    alike_timed = found.pop(Course.CHANGED, {}).values()
    changes = [_in_one(course, ranks) for course, ranks in found.items()]
    return Told(changes, _doubtful(alike_timed, both.bound_ratio))


def gained(before_s: float, now_s: float) -> float:
    """Return what was gained of a speed, as a part of 1; below 0 for what was lost."""
    return before_s / now_s - 1 if now_s else 0.0


def _told(timed: Iterable[Timed], bound_ratio: float) -> Told:
    every = list(timed)
    changed = [(each, _course(each.old, each.new, bound_ratio)) for each in every]
    changes = [_change(each, course) for each, course in changed if course is not Course.CHANGED]
    return Told(changes, _doubtful(every, bound_ratio))


def _doubtful(timed: Iterable[Timed], bound_ratio: float) -> list[str]:
    """Return what seems slower, and may only have waited for cores, in a line."""
    doubtful = [each for each in timed if seems_slower(each.new, each.old, bound_ratio)]
    waits = max((each.new.core_waits for each in doubtful), default=0.0)
    names = listed(each.what for each in doubtful)
    why = f"slower, but ranks waited for a core for up to {waits:.0%} of the time"
    return [f"{names}: {why}"] if doubtful else []


def _change(timed: Timed, course: Course, ranks: Sequence[int] = (), lead: str = "") -> Change:
    return Change(
        part=Part.SPEED,
        what=timed.what,
        before=timed.before,
        now=timed.now,
        course=course,
        ranks=ranks,
        ratio=gained(timed.old.median_s, timed.new.median_s),
        note=lead + _noise(timed.old, timed.new),
    )


def _collective(old: Speed, new: Speed, both: Both) -> Timed:
    in_place = " in place" if new.memory != "contiguous" else ""
    name = f"{new.kind} of {size(new.size_bytes)}{in_place}"
    before, now = (_speed(each, both.new.run.world_size) for each in (old, new))
    return Timed(name, old.spread, new.spread, before, now)


def _speed(speed: Speed, world_size: int) -> str:
    if speed.size_bytes < LEAST_BANDWIDTH_BYTES:
        return f"{1e6 * speed.median_s:.0f} us"
    return f"{gbps(speed, world_size):.3g} GB/s"


def _steps(both: Both, check: str, steps_s: Callable[[Any], Sequence[float]]) -> Told:
    facts = both.facts(check)
    if not all(facts):
        return Told()
    if why := _incomparable_steps(both):
        return _left_out("training steps", why)
    old, new = (_slowest(_times(each, steps_s), list(each.values())) for each in facts)
    if old is None or new is None:
        return _left_out("training steps", "too few were measured to know how much they vary")
    before, now = (f"{1e3 * each.median_s:.3g} ms" for each in (old, new))
    return _told([Timed("training step", old, new, before, now)], both.bound_ratio)


def _computed(rank: int, old: Spread, new: Spread) -> Timed:
    before, now = (f"{1e3 * each.median_s:.3g} ms" for each in (old, new))
    return Timed(f"computing of rank {rank}", old, new, f"{before} a turn", now)


def _in_one(course: Course, ranks: Mapping[int, Timed]) -> Change:
    """Return one change for all ranks that go the same way: the numbers of the one farthest off."""
    gains = {rank: abs(gained(own.old.median_s, own.new.median_s)) for rank, own in ranks.items()}
    worst = max(gains, key=lambda rank: gains[rank])
    timed = ranks[worst]._replace(what=f"computing of {ranks_told(ranks)}")
    return _change(timed, course, sorted(ranks), f"rank {worst}: " if len(ranks) > 1 else "")


def _incomparable(both: Both) -> str:
    """Return why speeds of the two runs say nothing of each other, or ''."""
    old, new = both.old.run, both.new.run
    if not both.same_ranks:
        return f"{new.world_size} ranks instead of {old.world_size}"
    if old.backend != new.backend:
        return f"{new.backend} instead of {old.backend}"
    return ""


def _incomparable_steps(both: Both) -> str:
    old, new = both.old.run, both.new.run
    return _incomparable(both) or (
        f"{new.target} instead of {old.target}" if old.target != new.target else ""
    )


def _left_out(what: str, why: str) -> Told:
    return Told(left_out=[f"{what}: {why}"])


def _course(old: Spread, new: Spread, bound_ratio: float) -> Course:
    if is_slower(new, old, bound_ratio):
        return Course.WORSE
    return Course.BETTER if is_slower(old, new, bound_ratio) else Course.CHANGED


def _noise(old: Spread, new: Spread) -> str:
    """Return how wide the middle halves are, as parts of the median, and who waited for a core."""
    before, now = (
        f"{(each.three_quarters_s - each.quarter_s) / each.median_s:.0%}" for each in (old, new)
    )
    waits = f"; waits for a core {old.core_waits:.0%}, now {new.core_waits:.0%}"
    told = waits if old.core_waits or new.core_waits else ""
    return f"spread {before}, now {now}{told}"


def _slowest(times: Times, facts: Collection[Any]) -> Spread | None:
    """Return the spread of the slowest rank's steps; any rank's waiting may be what made them so."""
    spreads = [spread for own in times.values() if (spread := _spread(own, facts)) is not None]
    return max(spreads, key=lambda spread: spread.median_s, default=None)


def _spread(took_s: Sequence[float], facts: Collection[Any]) -> Spread | None:
    is_enough = len(took_s) >= LEAST_GOES and min(took_s) > 0
    return spread_of(took_s, _core_waits(facts)) if is_enough else None


def _core_waits(facts: Collection[Any]) -> float:
    splits = ((fact, fact.get("split")) for fact in facts)
    told = (
        (split if isinstance(split, Mapping) else own).get("core_waits") for own, split in splits
    )
    return max((each for each in told if isinstance(each, float)), default=0.0)


def _step_s(block: Any) -> float:
    return msgspec.convert(block, Block, strict=False).step_s


def _times(facts: Mapping[int, Any], of: Callable[[Any], Any]) -> dict[int, list[float]]:
    """Return the seconds of each rank; none of a rank whose facts have another shape."""
    found: dict[int, list[float]] = {}
    for rank, fact in facts.items():
        try:
            found[rank] = msgspec.convert(of(fact), list[float], strict=False)
        except (LookupError, TypeError, msgspec.ValidationError):
            continue
    return found


def _decoded(facts: Mapping[int, Any], name: str, kind: type[T]) -> dict[int, T] | None:
    try:
        return {
            rank: msgspec.convert(fact[name], kind, strict=False) for rank, fact in facts.items()
        }
    except (LookupError, TypeError, msgspec.ValidationError):
        return None
