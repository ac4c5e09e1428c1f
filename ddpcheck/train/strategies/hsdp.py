"""Shards within a group of ranks, replicas across groups: FSDP2 on a mesh of two dimensions.

Layers are gathered within the shards' group alone, which is to be a host; across hosts only the
gradients of a shard are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ddpcheck.target.minigpt import MiniGPTConfig
from ddpcheck.train.parallel import Mesh
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import fsdp
from ddpcheck.train.strategies.fsdp import Options, build, needs

__all__ = ["Options", "build", "needs"]

# FSDP takes the first dimension of a mesh for replicas, and shards along the second.
AXES = ("replicate", "shard")
DATA_AXES = AXES
VARIANTS: Sequence[Mapping[str, str]] = ({},)


def meshes(world_size: int) -> list[Mesh]:
    """Return the one mesh: two replicas, or one where the ranks are odd in number."""
    replicas = 1 if world_size % 2 else 2
    return [{"replicate": replicas, "shard": world_size // replicas}]


def obstacle(recipe: Recipe, config: MiniGPTConfig) -> str:
    """Return why it cannot run: it needs replicas, and shards."""
    if min(recipe.mesh.get(axis, 1) for axis in AXES) == 1:
        return "it needs two replicas of two shards, or more: use 4 ranks, or fsdp"
    return fsdp.obstacle(recipe, config)
