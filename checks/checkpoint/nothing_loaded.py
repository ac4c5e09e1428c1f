"""A state was loaded of which the model took nothing.

Why it matters
    load_state_dict(..., strict=False) passes over what does not fit. A state that was saved
    through a wrapper has "module." before every name; loaded into a model without it, nothing
    fits, nothing is said, and training or evaluation goes on with random weights. So it is with the
    body of another model ("backbone."), and with a filter that keeps the names that fit.

What to do
    Save model.module.state_dict(), take the prefix off the names, or load before wrapping. Load
    with strict=True where the names are to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.state_names import WRAPPERS, hiding_prefix

KEPT_COUNT = 64


# Models that are wrapped into another one.
WRAPPING = ("DistributedDataParallel", "DataParallel")


class Load(msgspec.Struct, frozen=True):
    """One state: how many names it has, how many of the model's own it has, and had it no prefix.

    ``prefix`` is the one that is too much in the state, or missing from it, '' for none.
    """

    model: str
    given: int
    fitting: int
    prefix: str = ""
    fitting_without: int = 0
    location: Location | None = None


class Facts(msgspec.Struct, frozen=True):
    """What a rank loaded."""

    loads: tuple[Load, ...]


class Observer:
    """Notes each load_state_dict of a module."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._loads: list[Load] = []

    def on_loaded(
        self,
        module: object,
        given: tuple[str, ...],
        missing: tuple[str, ...],
        unexpected: tuple[str, ...],
        location: Location | None,
    ) -> None:
        """Count what fits, and what would without a prefix."""
        if len(self._loads) == KEPT_COUNT or not (given or missing):
            return
        prefix, without = hiding_prefix(missing, unexpected)
        fitting = len(given) - len(unexpected)
        self._loads.append(
            Load(
                type(module).__name__,
                len(given),
                fitting,
                prefix,
                fitting + without,
                location,
            )
        )

    def facts(self) -> Facts:
        """Return what was loaded; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._loads))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line that loaded nothing, or would load more without a prefix.

    A state that is empty on some ranks alone is handed out later, by DistributedDataParallel, say.
    """
    found: dict[str, dict[int, Load]] = {}
    filled = {_place(load) for own in facts.values() for load in own.loads if load.given}
    for rank, own in sorted(facts.items()):
        for load in own.loads:
            is_told = load.given > 0 or _place(load) not in filled
            if is_told and (not load.fitting or load.prefix):
                found.setdefault(_place(load), {}).setdefault(rank, load)
    return [_finding(ranks) for ranks in found.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many states were loaded."""
    return f"{max((len(own.loads) for own in facts.values()), default=0)} states loaded on a rank"


def _place(load: Load) -> str:
    return f"{load.model} {load.location}"


def _finding(ranks: Mapping[int, Load]) -> Finding:
    load = ranks[min(ranks)]
    cause = f"; {load.fitting_without} would, but for the prefix {load.prefix!r}"
    return Finding(
        title=f"load_state_dict took {load.fitting or 'nothing'} of a state of {load.given}",
        message=f"{load.fitting} of the {load.given} names that it was given fit the {load.model}"
        + (cause if load.prefix else ""),
        fix=_fix(load),
        ranks=tuple(ranks),
        severity=Severity.ERROR if load.prefix in WRAPPERS else Severity.WARNING,
        confidence=Confidence.HIGH if load.prefix in WRAPPERS else Confidence.MEDIUM,
        location=load.location,
    )


def _fix(load: Load) -> str:
    if not load.prefix:
        return "load all of it with strict=True to see which names differ"
    if load.model in WRAPPING:
        return "load it into model.module, with strict=True"
    into = "save model.module.state_dict()"
    saved = into if load.prefix in WRAPPERS else "load into the part it is of"
    return f"{saved}, or take the prefix off the names; load with strict=True"
