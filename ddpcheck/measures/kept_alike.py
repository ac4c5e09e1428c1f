"""Parameters that an optimizer keeps alike by itself, as ZeRO written by hand does, beside some that go apart.

Whatever sends what: who is given unlike gradients on each rank, and ends alike on all, was kept so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.deeds import cause_of_drift
from ddpcheck.measures.drift import ROUNDING_UNITS, Drift
from ddpcheck.measures.sketch import are_alike
from ddpcheck.measures.unwrapped import Told
from ddpcheck.measures.words import counted, spans

SEED_FIX = (
    "seed all ranks alike before the model is made, or broadcast it from rank 0 before training"
)
GRADIENT_FIX = "average its gradient over the ranks, too, or hand out what one rank makes of it"


def kept_alike(told: Mapping[int, Told]) -> list[str]:
    """Return what changed to the same on all ranks, though ranks had unlike gradients of it."""
    first = told[min(told)]
    after = [own.after for own in told.values()]
    return [
        name
        for name, end in first.after.items()
        if are_alike(after, name)
        and (name not in first.before or end.digest != first.before[name].digest)
        and _has_unlike_gradients(told, name)
    ]


def found_beside_kept(
    told: Mapping[int, Told], drift: Drift, kept: Sequence[str], names: Mapping[str, str]
) -> Finding:
    """Return a finding of what goes apart beside what is ``kept``; ``names`` are the script's."""
    name, one = (names.get(each, each) for each in (drift.found.name, kept[0]))
    cause = cause_of_drift(told, drift)
    unit = max(each.unit for each in told.values())
    is_rounding = drift.found.relative <= ROUNDING_UNITS * unit
    return Finding(
        title=f"the script keeps {one} alike on all ranks, and {name} goes apart"
        if drift.step >= 0
        else drift.title,
        message=f"{drift.what} {name} is the first of {drift.found.differing} that differ; relative "
        f"difference {drift.found.relative:.1e}; {counted(len(kept), 'parameter')}, {one} first, ended "
        f"alike on ranks {spans(told)}, though gradients were not when the step began"
        + (f"; {cause.words}" if cause else ""),
        fix=(cause and cause.fix) or (GRADIENT_FIX if drift.step >= 0 else SEED_FIX),
        ranks=tuple(sorted(told)),
        location=cause.location if cause else None,
        severity=Severity.INFO if is_rounding else Severity.WARNING,
        confidence=Confidence.LOW if is_rounding else Confidence.MEDIUM,
        evidence={"parameter": name, "relative_difference": drift.found.relative},
    )


def _has_unlike_gradients(told: Mapping[int, Told], name: str) -> bool:
    steps = zip(*(own.gradients for own in told.values()), strict=False)
    return any(not are_alike(step, name) for step in steps)
