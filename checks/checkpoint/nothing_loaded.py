"""A state was loaded of which the model took nothing.

Why it matters
    load_state_dict(..., strict=False) passes over what does not fit. A state that was saved
    through a wrapper has "module." before every name; loaded into a model without it, nothing
    fits, nothing is said, and training or evaluation goes on with random weights.

What to do
    Save model.module.state_dict(), take the prefix off the names, or load before wrapping. Load
    with strict=True where the names are to be the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity

KEPT_COUNT = 64
# What DistributedDataParallel, torch.compile, FSDP1 and activation checkpointing put before names.
PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
# Of the names that do not fit: as many as that agree by no chance once their first part is gone.
RENAMED_RATIO = 0.5
LEAST_RENAMED_COUNT = 2


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
        if len(self._loads) == KEPT_COUNT or not given:
            return
        prefix, without = max(
            *((each, _fitting_without(each, missing, unexpected)) for each in PREFIXES),
            *_fitting_without_first(missing, unexpected),
            key=lambda pair: pair[1],
        )
        fitting = len(given) - len(unexpected)
        self._loads.append(
            Load(
                type(module).__name__,
                len(given),
                fitting,
                prefix if without else "",
                fitting + without,
                location,
            )
        )

    def facts(self) -> Facts:
        """Return what was loaded; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return Facts(tuple(self._loads))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line that loaded nothing, or would load more without a prefix."""
    found: dict[str, dict[int, Load]] = {}
    for rank, own in sorted(facts.items()):
        for load in own.loads:
            if not load.fitting or load.prefix:
                found.setdefault(f"{load.model} {load.location}", {}).setdefault(rank, load)
    return [_finding(ranks) for ranks in found.values()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many states were loaded."""
    return f"{max((len(own.loads) for own in facts.values()), default=0)} states loaded on a rank"


def _fitting_without(prefix: str, missing: tuple[str, ...], unexpected: tuple[str, ...]) -> int:
    wanted = {name.replace(prefix, "") for name in missing}
    given = {name.replace(prefix, "") for name in unexpected}
    has_it = any(prefix in name for name in (*missing, *unexpected))
    return len(wanted & given) if has_it else 0


def _fitting_without_first(
    missing: tuple[str, ...], unexpected: tuple[str, ...]
) -> list[tuple[str, int]]:
    """Return how many names would fit without the first part of the others, whatever it is."""
    found: list[tuple[str, int]] = []
    for longer, shorter in ((unexpected, set(missing)), (missing, set(unexpected))):
        for first in dict.fromkeys(name.partition(".")[0] + "." for name in longer):
            count = sum(name.startswith(first) and name[len(first) :] in shorter for name in longer)
            if count >= max(LEAST_RENAMED_COUNT, RENAMED_RATIO * len(unexpected)):
                found.append((first, count))
    return found


def _finding(ranks: Mapping[int, Load]) -> Finding:
    load = ranks[min(ranks)]
    cause = f"; {load.fitting_without} would, but for the prefix {load.prefix!r}"
    return Finding(
        title=f"load_state_dict took {load.fitting or 'nothing'} of a state of {load.given}",
        message=f"{load.fitting} of {load.given} names fit the {load.model}"
        + (cause if load.prefix else ""),
        fix=_fix(load.prefix),
        ranks=tuple(ranks),
        severity=Severity.ERROR if load.prefix in PREFIXES else Severity.WARNING,
        confidence=Confidence.HIGH if load.prefix in PREFIXES else Confidence.MEDIUM,
        location=load.location,
    )


def _fix(prefix: str) -> str:
    if not prefix:
        return "load with strict=True to see which names differ"
    saved = (
        "save model.module.state_dict()" if prefix in PREFIXES else "load into the part it is of"
    )
    return f"{saved}, or take the prefix off the names; load with strict=True"
