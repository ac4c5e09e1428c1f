"""The plan: which strategies run on which meshes, and which do not fit, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

import msgspec

from ddpcheck.errors import UsageError
from ddpcheck.target.minigpt import MiniGPTConfig
from ddpcheck.train.parallel import Mesh, Needs, Strategy, options_of
from ddpcheck.train.recipe import Recipe, rank_batch
from ddpcheck.train.strategies import strategy_named, strategy_names

ALL = "all"
# What the others are compared with: it is no row of the table.
REFERENCE = "single"


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """A strategy that cannot run here, and why."""

    strategy: str
    mesh: Mapping[str, int]
    options: Mapping[str, str] = {}
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to train, one recipe after the other, and what of it does not fit these ranks.

    resume: the checkpoint to go on from, or ''.
    """

    asked: Recipe
    recipes: tuple[Recipe, ...]
    misfits: tuple[Misfit, ...] = ()
    resume: str = ""


def plan(asked: Recipe, world_size: int, global_batch: int) -> Plan:
    """Return what to train for ``asked``, whose strategy may be ``all``.

    Raises UsageError when one strategy is asked for, and does not fit.
    """
    if asked.strategy != ALL:
        return Plan(asked=asked, recipes=(_fitting(asked, world_size, global_batch),))
    if asked.mesh or asked.options:
        raise UsageError("--mesh and --options are for one strategy: name it with --strategy")
    recipes: list[Recipe] = []
    misfits: list[Misfit] = []
    for one in _all_of_them(asked, world_size):
        try:
            recipes.append(_fitting(one, world_size, global_batch))
        except UsageError as error:
            misfits.append(
                Misfit(strategy=one.strategy, mesh=one.mesh, options=one.options, reason=str(error))
            )
    return Plan(asked=asked, recipes=tuple(recipes), misfits=tuple(misfits))


def data_ranks(strategy: Strategy, mesh: Mesh) -> int:
    """Return how many shares the global batch is cut into."""
    return prod(mesh.get(axis, 1) for axis in strategy.DATA_AXES)


def backends(plan: Plan) -> str:
    """Return the plan's backend as torch's ``init_process_group`` takes it."""
    asked = plan.asked.backend
    if asked == "nccl" and any(needs_of(each).cpu_collectives for each in plan.recipes):
        return "cpu:gloo,cuda:nccl"
    return asked


def mesh_text(mesh: Mesh) -> str:
    """Return a mesh as people write it: dp=2,tp=2."""
    return ",".join(f"{axis}={size}" for axis, size in mesh.items())


def _all_of_them(asked: Recipe, world_size: int) -> Iterator[Recipe]:
    for name in strategy_names():
        strategy = strategy_named(name)
        if name != REFERENCE:
            for mesh, options in product(strategy.meshes(world_size), strategy.VARIANTS):
                yield msgspec.structs.replace(asked, strategy=name, mesh=mesh, options=options)


def _fitting(asked: Recipe, world_size: int, global_batch: int) -> Recipe:
    """Return the recipe with a mesh; raises UsageError unless the strategy can run on it."""
    strategy = strategy_named(asked.strategy)
    mesh = dict(asked.mesh or strategy.meshes(world_size)[0])
    options_of(asked, strategy.Options)
    strangers = [axis for axis in mesh if axis not in strategy.AXES]
    if strangers:
        raise UsageError(
            f"--mesh {mesh_text(mesh)}: {asked.strategy} has no axis {strangers[0]}, but "
            + ", ".join(strategy.AXES)
        )
    if prod(mesh.values()) != world_size:
        raise UsageError(
            f"--mesh {mesh_text(mesh)} is of {prod(mesh.values())} ranks, but there are {world_size}"
        )
    fitting = msgspec.structs.replace(
        asked, mesh={axis: mesh[axis] for axis in strategy.AXES if axis in mesh}
    )
    if reason := strategy.obstacle(fitting, MiniGPTConfig()):
        raise UsageError(f"{asked.strategy} on {mesh_text(mesh)}: {reason}")
    share = rank_batch(global_batch, data_ranks(strategy, mesh))
    pieces = _pieces(fitting, needs_of(fitting).micro_batches, share)
    return msgspec.structs.replace(fitting, micro_batches=pieces)


def needs_of(recipe: Recipe) -> Needs:
    """Return what a recipe needs around it, as its strategy knows."""
    return strategy_named(recipe.strategy).needs(recipe)


def _pieces(asked: Recipe, least: int, share: int) -> int:
    """Return how many micro-batches to cut a share into; raises UsageError if that cannot be."""
    pieces = asked.micro_batches or least
    if pieces < least:
        raise UsageError(
            f"--micro-batches {pieces}: {asked.strategy} on {mesh_text(asked.mesh)} needs {least}"
        )
    if share % pieces:
        raise UsageError(
            f"--micro-batches {pieces}: a rank's share of the batch is {share}, which cannot be "
            "cut into so many equal pieces"
        )
    return pieces
