"""Replicas of scripts without DDP, whose gradients the script averages by itself, or nobody does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import msgspec

from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.clipped import scaled_alike
from ddpcheck.measures.deeds import cause_of_drift
from ddpcheck.measures.drift import (
    OF_GRADIENTS,
    ROUNDING_UNITS,
    Drift,
    first_drift,
    odd_ones,
)
from ddpcheck.measures.kept_alike import SEED_FIX, found_beside_kept, kept_alike
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import are_alike, first_difference
from ddpcheck.measures.unwrapped import Shared, Summed, Told, own_by_design, shared, without
from ddpcheck.measures.words import spans


def found_without_ddp(told: Mapping[int, Told]) -> Finding | None:
    """Return how these ranks' replicas differ; where nobody averages gradients it is only told.

    Ranks that hold parts of one model, as stages, are no replicas of each other.
    """
    summed = next(iter(told.values())).unwrapped.summed
    parts = {ranks for own in told.values() for ranks in own.unwrapped.parts}
    has_parts = any(len(told.keys() & each) > 1 for each in parts)
    if summed is not None:
        unlike = None if has_parts else _of_unlike_steps(told, summed)
        if unlike is not None:
            return unlike
        clipped = set[str]() if are_averaged(told) else scaled_alike(told)
        own = own_by_design(told) | clipped
        drift = first_drift({rank: shared(each, own) for rank, each in told.items()})
        if drift is None or has_parts:
            return None
        is_told = drift.step < 0 or are_averaged(told) or clipped or is_too_soon(told, drift)
        return _of_averaged(told, drift, summed) if is_told or is_unused(told, drift) else None
    drift = first_drift(told)
    spread = {ranks for own in told.values() for ranks in own.unwrapped.spread}
    is_divided = has_parts or any(len(told.keys() & each) > 1 for each in spread)
    if drift is None or (is_divided and drift.step < 0):
        return None
    placed = [where for own in told.values() for where in own.unwrapped.placed]
    if placed and not is_divided:
        return _of_thrown_away(told, drift, placed[0])
    beside = None if is_divided else _beside_kept(told)
    return beside or _of_own(told, drift, None if is_divided else _meant_as_one(told))


def _meant_as_one(told: Mapping[int, Told]) -> Drift | None:
    """Return how replicas went apart that were alike at first, and are dealt one dataset.

    Who shares it out, and begins with one model, trains one.
    """
    drift = first_drift({rank: shared(each, own_by_design(told)) for rank, each in told.items()})
    are_dealt = all(own.unwrapped.shares for own in told.values())
    return drift if drift is not None and drift.step >= 0 and are_dealt else None


def _beside_kept(told: Mapping[int, Told]) -> Finding | None:
    """Return a finding where the optimizer keeps most alike, and that is not to differ by design.

    It averages in its step: gradients that differ before that are all alike to it.
    """
    kept, own = kept_alike(told), own_by_design(told)
    drift = first_drift({r: _beside(shared(each, own), kept) for r, each in told.items()})
    if not kept or drift is None:
        return None
    one = told[min(told)].unwrapped
    found = found_beside_kept(told, drift, kept, one.names)
    return msgspec.structs.replace(found, location=found.location or one.made)


def _beside(own: Shared, kept: Collection[str]) -> Shared:
    before, after = without(own.before, kept), without(own.after, kept)
    return replace(own, before=before, gradients=[], after=after)


def are_averaged(told: Mapping[int, Told]) -> bool:
    """Return whether some gradient was the same on all ranks in a step, and not zero."""
    for step in range(min(len(own.gradients) for own in told.values())):
        gradients = [own.gradients[step] for own in told.values()]
        if any(each.norm and are_alike(gradients, name) for name, each in gradients[0].items()):
            return True
    return False


def is_too_soon(told: Mapping[int, Told], drift: Drift) -> bool:
    """Return whether a gradient that differs was summed, and changed by a backward pass after it.

    That alone is no fault: what came later may be alike on all ranks.
    """
    names = [own.unwrapped.too_soon for own in told.values()]
    return drift.what == OF_GRADIENTS and all(drift.found.name in each for each in names)


def is_unused(told: Mapping[int, Told], drift: Drift) -> bool:
    """Return whether all gradients are summed, and the optimizer gets none of the sums.

    What is less than all of them may be a measure of how far ranks are apart.
    """
    summed = [own.unwrapped.summed for own in told.values()]
    is_whole = all(each is not None and each.is_whole for each in summed)
    return drift.what == OF_GRADIENTS and is_whole and not are_averaged(told)


def _of_averaged(told: Mapping[int, Told], drift: Drift, summed: Summed) -> Finding:
    name = _name(told, drift)
    cause = cause_of_drift(told, drift)
    ranks, why = (cause.ranks, cause.words) if cause else odd_ones(drift.found.ranks, told)
    limit = ROUNDING_UNITS * max(own.unit for own in told.values())
    is_rounding = drift.found.relative <= limit
    averaged = f"the script averages gradients of ranks {spans(told)} by itself"
    return Finding(
        title=_title(told, drift, name),
        message=f"{averaged}; {drift.what} {name} is the first of {drift.found.differing} that differ; "
        f"relative difference {drift.found.relative:.1e}{f'; {why}' if why else ''}",
        fix=cause.fix if cause else _fix(told, drift, name),
        ranks=ranks,
        location=(cause and cause.location) or summed.location,
        severity=Severity.INFO if is_rounding else Severity.WARNING,
        confidence=Confidence.LOW if is_rounding else Confidence.MEDIUM,
        evidence={"parameter": name, "relative_difference": drift.found.relative},
    )


def _of_unlike_steps(told: Mapping[int, Told], summed: Summed) -> Finding | None:
    """Return a finding where ranks that came to their end made other numbers of steps, and differ."""
    steps = {rank: own.steps for rank, own in told.items()}
    apart = first_difference({rank: own.after for rank, own in told.items()})
    ended = all(own.unwrapped.ended and not own.apart_by_design for own in told.values())
    if len(set(steps.values())) == 1 or apart is None or not ended:
        return None
    counts = ", ".join(f"{count} on rank {spans(own)}" for count, own in grouped(steps).items())
    name = told[min(told)].unwrapped.names.get(apart.name, apart.name)
    return Finding(
        title="ranks make other numbers of optimizer steps",
        message=f"{counts}, and {name} is the first of {apart.differing} parameters that differ in the end: "
        "the script averages gradients by itself, and some rank has left a step out",
        fix="decide on all ranks together whether to leave a step out; with a GradScaler, average before "
        "unscale_(), so that all find the same",
        ranks=tuple(sorted(told)),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        location=summed.location,
        evidence={"parameter": name, "steps": {str(rank): count for rank, count in steps.items()}},
    )


def _of_thrown_away(told: Mapping[int, Told], drift: Drift, placed: Location | None) -> Finding:
    return Finding(
        title="the model was wrapped in DistributedDataParallel, and is trained without it",
        message=f"{drift.what} {_name(told, drift)} is the first of {drift.found.differing} that differ; "
        f"relative difference {drift.found.relative:.1e}: no forward pass went through what was made "
        "of the model",
        fix="train what DistributedDataParallel(model), or accelerator.prepare(model), returns, and "
        "never the model that was handed over",
        ranks=tuple(sorted(told)),
        severity=Severity.ERROR,
        confidence=Confidence.MEDIUM,
        location=placed,
        evidence={"relative_difference": drift.found.relative},
    )


def _title(told: Mapping[int, Told], drift: Drift, name: str) -> str:
    if is_too_soon(told, drift):
        return "gradients were changed by a backward pass after they were summed"
    if is_unused(told, drift):
        return "gradients are summed over the ranks, and the optimizer gets each rank's own"
    is_left_out = drift.what == OF_GRADIENTS
    return f"the gradient of {name} is not averaged with the others" if is_left_out else drift.title


def _fix(told: Mapping[int, Told], drift: Drift, name: str) -> str:
    if drift.step < 0:
        return SEED_FIX
    if is_too_soon(told, drift):
        return "average the gradients after the last backward pass before the optimizer's step, or use DDP"
    if is_unused(told, drift):
        return "copy what was summed into .grad before the optimizer's step, and wait for it where it is async"
    if drift.what == OF_GRADIENTS:
        return f"average the gradient of {name}, too, before the optimizer's step, or use DDP"
    return (
        "let all ranks make the same optimizer steps, with the same learning rate, after averaging"
    )


def _of_own(told: Mapping[int, Told], drift: Drift, of_one: Drift | None) -> Finding:
    """Return that ranks train models of their own; where it was to be ``of_one`` it is sure."""
    found = drift.found
    dealt = "; a DistributedSampler deals one dataset out to ranks that began with one model"
    if not all(own.unwrapped.ended for own in told.values()):
        dealt += "; where weights are averaged every so many steps, watch more of them (--steps)"
    return Finding(
        title=f"ranks train models of their own: {drift.title}",
        message=f"{drift.what} {_name(told, drift)} is the first of {found.differing} that differ; "
        f"relative difference {found.relative:.1e}; it was not seen that gradients are averaged: no "
        "DistributedDataParallel, no FSDP, no all_reduce of the like after a backward pass"
        + (dealt if of_one else ""),
        fix="if the ranks are to train one model, wrap it in DistributedDataParallel; those of a "
        "tensor-parallel group need the same seed and the same batches",
        ranks=tuple(sorted(told)),
        location=told[min(told)].unwrapped.made if of_one else None,
        severity=Severity.WARNING if of_one else Severity.INFO,
        confidence=Confidence.MEDIUM if of_one else Confidence.LOW,
        evidence={"relative_difference": found.relative},
    )


def _name(told: Mapping[int, Told], drift: Drift) -> str:
    return told[min(told)].unwrapped.names.get(drift.found.name, drift.found.name)
