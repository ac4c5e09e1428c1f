"""How much a measurement varies within one run, and when two of them really differ."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

import msgspec
from msgspec.structs import replace

# Who waits for a core for more of its time than this waits for whole slices of others, in most goes:
# a message that takes 0.1 ms took 4 to 9 ms where this was 0.5 to 0.9 (two cores, gloo, 15 others
# that ran there; Linux gives some 4 ms at a time).
MOST_WAITS = 0.4
SLICES_S = 0.012


class Spread(msgspec.Struct, frozen=True):
    """What many goes of one thing took, in seconds: the least, the middle, and the middle half.

    ``core_waits`` is which part of the time may have been lost by waiting for a core: to what else
    ran on the machines.
    """

    least_s: float
    quarter_s: float
    median_s: float
    three_quarters_s: float
    core_waits: float = 0.0


def spread_of(took_s: Sequence[float], core_waits: float = 0.0) -> Spread | None:
    """Return the spread of these goes; None for fewer than two, which have none."""
    if len(took_s) == 1 or not took_s:
        return None
    quarter_s, _, three_quarters_s = quantiles(took_s, n=4, method="inclusive")
    return Spread(min(took_s), quarter_s, median(took_s), three_quarters_s, core_waits)


def is_slower(now: Spread, before: Spread, bound_ratio: float) -> bool:
    """Return whether ``now`` lost more than ``bound_ratio`` of its speed, beyond the noise of both.

    The speed that is lost is 1 - before / now, of the medians. Where the goes of one run vary by
    more than that, the middle halves of both must lie apart, too, as boxes of a box plot that do not
    overlap (Tukey, Exploratory Data Analysis), and so must the quickest goes: what runs beside a
    measurement can only add to it, so of all goes the quickest ones are disturbed least.

    One run is over in seconds, and what else runs on a machine may stay for all of them: that shows in
    no spread. So what ``now`` may have lost by waiting for a core is not held against it: its times
    count as if each had been shorter by that part, and beyond ``MOST_WAITS`` by ``SLICES_S`` more.
    """
    return _lie_apart(_undisturbed(now), before, bound_ratio)


def seems_slower(now: Spread, before: Spread, bound_ratio: float) -> bool:
    """Return whether ``now`` is slower but for what it may have lost by waiting for a core."""
    return _lie_apart(now, before, bound_ratio) and not is_slower(now, before, bound_ratio)


def _undisturbed(spread: Spread) -> Spread:
    """Return the times as they may have been if no core had been waited for; the least one was."""
    part, more_s = 1 - spread.core_waits, SLICES_S if spread.core_waits > MOST_WAITS else 0.0
    quarter_s, median_s = (part * each - more_s for each in (spread.quarter_s, spread.median_s))
    return replace(spread, quarter_s=quarter_s, median_s=median_s)


def _lie_apart(now: Spread, before: Spread, bound_ratio: float) -> bool:
    beyond = now.median_s * (1 - bound_ratio) > before.median_s
    return beyond and now.quarter_s > before.three_quarters_s and now.least_s > before.least_s
