"""The moment at which replicas of a model came to differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from ddpcheck.measures.sketch import Difference, Sketch, first_apart, first_difference

# Replicas are equal bit by bit; where kernels are not deterministic, but for some last places.
ROUNDING_UNITS = 1.0
# What differs, in the words of a message before a parameter's name.
OF_GRADIENTS, OF_PARAMETERS = "gradient of", "parameter"


class Replica(Protocol):
    """What one rank has of its replica: see ``checks.gradients.replicas_differ.Facts``."""

    @property
    def before(self) -> Mapping[str, Sketch]: ...  # noqa: D102
    @property
    def gradients(self) -> Sequence[Mapping[str, Sketch]]: ...  # noqa: D102
    @property
    def after(self) -> Mapping[str, Sketch]: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def norms(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def apart_by_design(self) -> bool: ...  # noqa: D102


class Drift(NamedTuple):
    """The first difference: what differs, since when, and the training step; -1 is before all."""

    found: Difference
    title: str
    what: str
    step: int


def first_drift(replicas: Mapping[int, Replica]) -> Drift | None:
    """Return the earliest moment at which the replicas differ, if they differ in the end.

    Gradients that differ are no fault by themselves (an optimizer may average later): they
    are the cause when parameters differ afterwards.
    """
    if any(each.apart_by_design for each in replicas.values()):
        return None
    before = first_difference({rank: each.before for rank, each in replicas.items()})
    if before:
        return Drift(before, "parameters differ before the first step", OF_PARAMETERS, -1)
    after = first_difference({rank: each.after for rank, each in replicas.items()})
    if not after or len({each.steps for each in replicas.values()}) > 1:
        return None  # a rank that stopped in another step is elsewhere: gradients/step-raised
    norms = {rank: each.norms for rank, each in replicas.items()}
    # Where norms differ from the start, it is GPUs of several models that add them up.
    since = first_apart(norms)
    if come_together(norms):
        return None  # they are averaged every so many steps, and differ in between
    compared = min(len(each.gradients) for each in replicas.values())
    for step in range(min(compared, since or compared)):
        apart = first_difference({rank: each.gradients[step] for rank, each in replicas.items()})
        if apart:
            title = f"gradients of step {step} are not synchronized"
            return Drift(apart, title, OF_GRADIENTS, step)
    one = replicas[min(replicas)]
    known = sum(after.name in gradients for gradients in one.gradients[: since or compared])
    though = f", though gradients were equal in the first {known}" if known else ""
    steps = one.steps
    when = f"from step {since - 1} on" if since else f"after {steps} steps"
    step = since - 1 if since else compared
    return Drift(after, f"parameters differ {when}{though}", OF_PARAMETERS, step)


def odd_ones(fewer: tuple[int, ...], group: Collection[int]) -> tuple[tuple[int, ...], str]:
    """Return the ranks to name where nothing else tells whose fault it is, and what to say of it.

    Of two that differ, or of two halves, neither is the odd one: all are named.
    """
    if 2 * len(fewer) < len(group):
        return fewer, ""
    return tuple(sorted(group)), "nobody can say which rank is right"


def come_together(norms: Mapping[int, Sequence[str]]) -> bool:
    """Return whether replicas that part come together again and again: digests of all moments.

    Those that have been apart for longer than ever before are not about to be averaged. Where they
    differ from the start, it is GPUs of several models that add them up.
    """
    since = first_apart(norms)
    if not since:
        return False
    moments = list(zip(*norms.values(), strict=False))[since:]
    stretches = [
        len(list(each)) for apart, each in groupby(len(set(m)) > 1 for m in moments) if apart
    ]
    return len(stretches) > 1 and stretches[-1] <= max(stretches[:-1])
