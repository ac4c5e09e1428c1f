"""Why copies of a parameter went apart: their start, the batches of their ranks, or their gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from math import isclose
from typing import NamedTuple, Protocol

from ddpcheck.measures.copies import Copies, Drift, Ranks
from ddpcheck.measures.sketch import first_difference

# Ranks that compute one loss together come to the same bits, but for kernels of unlike GPUs.
LOSS_RELATIVE = 1e-4
UNSUMMED_FIX = (
    "sum its gradient over these ranks before the optimizer's step: SequenceParallel(), "
    "to_local(grad_placements=[Partial()]), or all_reduce"
)
START_FIX = (
    "seed these ranks alike before they make what each of them holds a copy of, or load one "
    "checkpoint on all of them, or broadcast it from one of them"
)
BATCHES_FIX = (
    "give all ranks of a tensor-parallel group the same batches: DistributedSampler(num_replicas=, "
    "rank=) and seeds of the data-parallel axis alone; where each has a part of the sequence by "
    "design, sum the gradient over these ranks before the optimizer's step"
)


DRAWS_FIX = "let them draw the same dropout, except in what is split"
ALL_REDUCE_FIX = (
    "let FSDP average the gradients of all replicas in the last backward pass before each step: "
    "set_requires_all_reduce(True), and the same optimizer on all ranks"
)


class Why(StrEnum):
    """What sets copies apart."""

    START = "start"
    BATCHES = "batches"
    LOSSES = "losses"
    GRADIENT = "gradient"


class Cause(NamedTuple):
    """What sets copies apart, seen of the parameter ``name``, in words that follow on ``drifting: ``.

    Names are the script's, as far as they are known.
    """

    why: Why
    name: str
    drifting: str
    words: str
    fix: str

    @property
    def title(self) -> str:
        """Return it in a line."""
        what = "differed before the first step" if self.why is Why.START else "drifts apart"
        return f"parameter {self.name} {what} on ranks that hold copies of it"


class Told(Protocol):
    """What a rank tells of its start and its work: see ``sharding.replicated_parameter_drifts``."""

    @property
    def copies(self) -> list[Copies]: ...  # noqa: D102
    @property
    def meshes(self) -> list[Ranks]: ...  # noqa: D102
    @property
    def names(self) -> dict[str, str]: ...  # noqa: D102
    @property
    def constants(self) -> list[str]: ...  # noqa: D102
    @property
    def losses(self) -> tuple[float, ...]: ...  # noqa: D102
    @property
    def batches(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def averaged(self) -> tuple[int, ...]: ...  # noqa: D102


def cause_of(told: Mapping[int, Told], ranks: Ranks, drift: Drift) -> Cause:
    """Return why a parameter drifts on these ranks.

    Ranks that come to one loss have the same start and batches: only a gradient is left. Where they
    do not, what differed earlier is the cause of what differed later. Replicas among which FSDP
    averages are to have other batches.
    """
    own = {rank: told[rank] for rank in ranks}
    names = own[min(own)].names
    drifting = names.get(drift.difference.name, drift.difference.name)
    if drift.from_start:
        words = f"it differed before the first step, by {drift.difference.relative:.1e} of its size"
        return Cause(Why.START, drifting, drifting, words, START_FIX)
    by_gradient = Cause(Why.GRADIENT, drifting, drifting, _gradient(drift), UNSUMMED_FIX)
    if all(set(ranks) <= set(each.averaged) for each in own.values()):
        return by_gradient._replace(fix=ALL_REDUCE_FIX)
    apart = _differed_at_first(own, ranks)
    is_declared = all(ranks in each.meshes for each in own.values())
    if apart and not is_declared and not _have_unlike_batches(own.values()):
        return _perhaps_start(names.get(apart, apart), by_gradient)
    if _are_alike([each.losses for each in own.values()]):
        return by_gradient
    if apart and is_declared:
        return _start(names.get(apart, apart), drifting, list(own.values()))
    return _unlike_work(drifting, list(own.values())) or by_gradient


def _perhaps_start(first: str, by_gradient: Cause) -> Cause:
    """Return both that it may be, where the script split the model by hand.

    What it split differs from the start, and so does what it made copies of with other seeds.
    """
    words = (
        f"{by_gradient.words}; all that is random differed before the first step, {first} first, "
    )
    words += "as parts do that were split by hand, and copies that were not seeded alike"
    fix = f"{UNSUMMED_FIX}; where {first} is meant to be a copy, too, {START_FIX}"
    return by_gradient._replace(words=words, fix=fix)


def _start(first: str, drifting: str, own: Collection[Told]) -> Cause:
    words, fix = f"{first} differed before the first step", START_FIX
    if _have_unlike_batches(own):
        words, fix = f"{words}, and the first batches differ, too", f"{START_FIX}; {BATCHES_FIX}"
    return Cause(Why.START, first, drifting, words, fix)


def _unlike_work(drifting: str, own: Collection[Told]) -> Cause | None:
    if _have_unlike_batches(own):
        words = "the first batches of these ranks differ"
        return Cause(Why.BATCHES, drifting, drifting, words, BATCHES_FIX)
    losses = [each.losses[0] for each in own if each.losses]
    if len(losses) < len(own):
        return None
    words = f"the first losses of these ranks differ, {min(losses):.6g} and {max(losses):.6g}"
    if all(each.batches and each.batches[0] for each in own):
        words += " of the same batch: something else was made, or drawn, apart"
        return Cause(Why.LOSSES, drifting, drifting, words, f"{START_FIX}; {DRAWS_FIX}")
    words += ", as those of unlike batches do, or of unlike draws"
    return Cause(Why.LOSSES, drifting, drifting, words, BATCHES_FIX)


def _have_unlike_batches(own: Collection[Told]) -> bool:
    """Return whether DataLoaders gave them; one rank may load for all of them."""
    batches = {each.batches[0] if each.batches else "" for each in own}
    return len(batches) > 1 and "" not in batches


def _gradient(drift: Drift) -> str:
    what = "it" if drift.step is None else f"its gradient of step {drift.step}"
    return f"{what} differs by {drift.difference.relative:.1e} of its size"


def _are_alike(losses: Collection[tuple[float, ...]]) -> bool:
    """Return whether all ranks told a first loss, and the same one."""
    first, *others = [each[:1] for each in losses]
    return bool(first) and all(
        bool(each) and isclose(each[0], first[0], rel_tol=LOSS_RELATIVE) for each in others
    )


def _differed_at_first(own: Mapping[int, Told], ranks: Ranks) -> str:
    """Return a plain parameter that is to be alike and was not before the first step, or ''.

    Beside DTensors the plain ones are whole. Those that a script split by hand differ by design,
    but for some that were random and are alike: where there are none, no rank was seeded alike.
    """
    plain = {
        rank: {
            name: each
            for copies in told.copies
            if not copies.ranks
            for name, each in copies.before.items()
            if name not in told.constants
        }
        for rank, told in own.items()
    }
    apart = first_difference(plain)
    if apart is None or any(apart.name not in each for each in plain.values()):
        return ""
    is_declared = all(ranks in told.meshes for told in own.values())
    every = {name for each in plain.values() for name in each}
    return apart.name if is_declared or apart.differing == len(every) else ""
