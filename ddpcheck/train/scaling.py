"""How well each strategy scales: on one rank, two, four, ... and all, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Dataset

from ddpcheck.errors import UsageError
from ddpcheck.launch.identity import Identity
from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.advice import Row
from ddpcheck.train.data import ShardedBatches
from ddpcheck.train.parallel import ALONE, Parallel, Place
from ddpcheck.train.planning import ALL, REFERENCE, Misfit, Plan, mesh_text, plan
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.speed import UNTIMED_STEPS, Stopwatch
from ddpcheck.train.strategies import strategy_named
from ddpcheck.train.trainer import trainer_of
from ddpcheck.train.world import World, pretended

# The quickest of some rounds: what else a machine does only ever slows one down.
ROUNDS, ROUND_STEPS = 3, 8
# DDP's buckets, in MiB: its own size is 25.
BUCKETS_MIB = (1.0, 5.0, 100.0)


@dataclass(frozen=True)
class Scaling:
    """What is measured, and as which rank; ``world`` is how the ranks that train meet."""

    world: World
    blocks: Dataset[Tensor]
    who: Identity

    def rows(self, asked: Recipe, global_batch: int) -> tuple[list[Row], tuple[Misfit, ...]]:
        """Return a row for each strategy and size, and what does not fit; whole on rank 0 alone.

        All ranks must call this; the process group of all of them stands afterwards.
        """
        found: list[Row] = []
        planned = Plan(asked=asked, recipes=())
        rank, world_size = self.who.rank, self.who.world_size
        for size in [1, world_size] if asked.mesh else sizes(world_size):
            if rank < size:
                planned = plan_of(asked, size, global_batch)
                found += _Size(self.world, self.blocks, global_batch, rank, size).rows(
                    planned, found
                )
        self.world.join("all", rank, world_size)
        return found, planned.misfits


@dataclass(frozen=True)
class _Size:
    """The first ``size`` ranks, this one among them."""

    world: World
    blocks: Dataset[Tensor]
    global_batch: int
    rank: int
    size: int

    def rows(self, planned: Plan, before: list[Row]) -> list[Row]:
        """Return a row for each recipe; ``before`` are those of fewer ranks."""
        places = [self._place(recipe) for recipe in planned.recipes]
        found: list[Row] = []
        with self.world.of_some(str(self.size), self.rank, self.size):
            for place, measured in zip(places, self._measured(places), strict=True):
                found.append(self._row(place, measured, [*before, *found]))
        if self.size > 1 and planned.asked.precision != "fp16":
            # In fp16 arbitrary numbers would have steps skipped.
            with pretended(self.rank, self.size):
                computing = self._measured(places, pretends=True)
            found = [_with_compute(*each) for each in zip(found, computing, strict=True)]
        return found

    def _place(self, recipe: Recipe) -> Place:
        return Place(recipe, self.world.device, replace(ALONE, rank=self.rank, size=self.size))

    def _measured(self, places: Sequence[Place], *, pretends: bool = False) -> list[_Measured]:
        """Return what each of them shows; their rounds are in turn, so that all suffer alike."""
        group = dist.group.WORLD if self.size > 1 else None
        joined = [replace(place, everyone=replace(place.everyone, group=group)) for place in places]
        runs = [_Run(place, self.blocks, self.global_batch, pretends) for place in joined]
        for _ in range(ROUNDS):
            for run in runs:
                run.go(ROUND_STEPS)
        return [run.measured() for run in runs]

    def _row(self, place: Place, own: _Measured, before: list[Row]) -> Row:
        told: list[Any] = [None] * place.everyone.size
        dist.all_gather_object(told, [own.state_bytes, own.peak_bytes])
        speed = max(own.speeds)
        first = before[0].tokens_per_s if before else speed
        peaks = tuple(peak for _, peak in told if peak)
        return Row(
            strategy=place.recipe.strategy,
            mesh=mesh_text(place.recipe.mesh),
            options=place.recipe.options,
            ranks=place.everyone.size,
            tokens_per_s=speed,
            slowest_tokens_per_s=min(own.speeds),
            speed_up=speed / first,
            efficiency=speed / first / place.everyone.size,
            communication=None if place.everyone.size > 1 else 0.0,
            state_bytes=tuple(state for state, _ in told),
            peak_bytes=peaks,
            bucket_cap_mb=place.recipe.bucket_cap_mb,
        )


def plan_of(asked: Recipe, size: int, global_batch: int) -> Plan:
    """Return what ``size`` ranks measure; one process alone is what all are compared with."""
    if size == 1:
        alone = msgspec.structs.replace(asked, strategy=REFERENCE, mesh={}, options={})
        return plan(alone, 1, global_batch)
    try:
        planned = plan(asked, size, global_batch)
    except UsageError:  # it fits all ranks, and not so few of them
        return Plan(asked=asked, recipes=())
    usual = [each for each in planned.recipes if _is_usual(each, asked)]
    recipes = [each for recipe in usual for each in _variants(recipe, size)]
    misfits = [each for each in planned.misfits if _is_usual(each, asked)]
    return msgspec.structs.replace(planned, recipes=tuple(recipes), misfits=tuple(misfits))


def _is_usual(one: Recipe | Misfit, asked: Recipe) -> bool:
    """Return whether it has the options asked for: with ``all``, its strategy's first."""
    return asked.strategy != ALL or one.options == strategy_named(one.strategy).VARIANTS[0]


@dataclass(frozen=True)
class _Measured:
    """Tokens/s of the rounds, none where there were none, and what this rank holds."""

    speeds: tuple[float, ...]
    state_bytes: int
    peak_bytes: int


class _Run:
    """A training that goes on a few steps at a time."""

    def __init__(
        self, place: Place, blocks: Dataset[Tensor], global_batch: int, pretends: bool
    ) -> None:
        self._device = place.device
        others_bytes = self._allocated(torch.cuda.memory_allocated)
        model = seeded(lambda: MiniGPT(MiniGPTConfig()))
        self._parallel = strategy_named(place.recipe.strategy).build(model, place)
        self._idles = pretends and not self._parallel.pretends
        data = self._parallel.data
        share = ShardedBatches(blocks, global_batch // data.size, data.rank, data.size)
        self._batches = share.iterate()
        self._trainer = trainer_of(self._parallel, place, UNTIMED_STEPS + ROUNDS * ROUND_STEPS)
        self._step = 0
        self._speeds: list[float] = []
        self.go(UNTIMED_STEPS)
        self._peak_bytes = self._allocated(torch.cuda.max_memory_allocated) - others_bytes

    def go(self, steps: int) -> None:
        """Train so many steps, and note how fast that was."""
        if self._idles:
            return
        watch, tokens = Stopwatch(self._device), 0
        watch.start()
        for _ in range(steps):
            self._step += 1
            _, batch = next(self._batches)
            done = self._trainer.step(self._step, batch)
            tokens += done.predictions * self._parallel.data.size
        watch.stop()
        self._speeds.append(tokens / watch.total_s)

    def measured(self) -> _Measured:
        """Return what was seen after the first steps, which are slower."""
        return _Measured(tuple(self._speeds[1:]), state_bytes(self._parallel), self._peak_bytes)

    def _allocated(self, ask: Callable[[torch.device], int]) -> int:
        if self._device.type != "cuda":
            return 0
        told = ask(self._device)
        torch.cuda.reset_peak_memory_stats(self._device)
        return told


def sizes(world_size: int) -> list[int]:
    """Return how many ranks train: 1, 2, 4, ... and all."""
    doubled = [2**power for power in range(world_size.bit_length()) if 2**power < world_size]
    return [*doubled, world_size]


def state_bytes(parallel: Parallel) -> int:
    """Return what this rank holds from one step to the next: weights, gradients, optimizer."""
    parameters = list(parallel.model.parameters())
    trained = [each for each in parameters if each.requires_grad]
    optimizer: Any = parallel.optimizer
    # One that is a part of another, as ZeRO's, holds the state of this rank.
    inner = getattr(optimizer, "optim", optimizer)
    kept = (value for state in inner.state.values() for value in state.values())
    return sum(map(_held_bytes, [*parameters, *trained, *kept]))


def _variants(recipe: Recipe, size: int) -> Iterator[Recipe]:
    yield recipe
    if recipe.strategy == "ddp" and size > 1 and recipe.bucket_cap_mb is None:
        for bucket in BUCKETS_MIB:
            yield msgspec.structs.replace(recipe, bucket_cap_mb=bucket)


def _with_compute(row: Row, computing: _Measured) -> Row:
    if not computing.speeds:
        return row
    share = max(0.0, 1 - row.tokens_per_s / max(computing.speeds))
    return msgspec.structs.replace(row, communication=share)


def _held_bytes(value: Any) -> int:
    if not isinstance(value, Tensor):
        return 0
    shard: Any = value
    # DeepSpeed keeps the part of a weight beside it.
    kept: Any = getattr(shard, "ds_tensor", shard)
    local: Tensor = kept.to_local() if hasattr(kept, "to_local") else kept
    return local.numel() * local.element_size()
