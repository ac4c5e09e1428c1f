"""Every rank holds a part of each layer: tensor parallelism, with FSDP2 across its groups.

The plan is Megatron's: a column-parallel product, whose outputs stay apart, feeds a row-parallel one,
whose results are summed. Between them, norms and residuals are sequence-parallel: each rank has a
part of the positions (Korthikanti et al., Reducing Activation Recomputation in Large Transformer
Models, MLSys 2023, section 4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import cast

import msgspec
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, summed_next_byte_loss
from ddpcheck.train.dtensor import DTensor, Replicate, Shard, clip_gradients, collect
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import Mesh, Needs, Parallel, Place, Scale, share_along
from ddpcheck.train.precision import autocast
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import fsdp
from ddpcheck.train.strategies.fsdp import FSDPModule

AXES = ("dp", "tp")
DATA_AXES = ("dp",)
VARIANTS: Sequence[Mapping[str, str]] = ({},)
PAIR = 2


class Options(msgspec.Struct, frozen=True):
    """It has none."""


def meshes(world_size: int) -> list[Mesh]:
    """Return one group of all ranks, and groups of two that share out the batch."""
    pairs, left = divmod(world_size, PAIR)
    one_group: Mesh = {"tp": world_size}
    return [one_group] if left or pairs == 1 else [one_group, {"dp": pairs, "tp": PAIR}]


def obstacle(recipe: Recipe, config: MiniGPTConfig) -> str:
    """Return why it cannot run: heads and positions are to be shared out equally."""
    ranks = recipe.mesh.get("tp", 1)
    if ranks == 1:
        return "it needs two ranks along tp, or more"
    for count, what in ((config.heads, "heads"), (config.block, "positions")):
        if count % ranks:
            return f"{ranks} ranks cannot share {count} {what} equally: choose another --mesh"
    return ""


def needs(recipe: Recipe) -> Needs:
    """Return how it rounds: as FSDP along dp, and else as autocast."""
    return fsdp.needs(recipe) if "dp" in recipe.mesh else Needs()


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return this rank's parts of all layers; along dp, FSDP shards each part once more."""
    mesh = place.device_mesh()
    parallelize(model.to(place.device), mesh["tp"])
    if "dp" in place.recipe.mesh:
        fsdp.shard(model, place, mesh["dp"], fsdp.Options())
    return Parallel(
        model=model,
        optimizer=adamw(model),
        # All ranks of a group compute parts of the same: they must have the same batch.
        data=share_along(mesh, "dp"),
        backward=partial(backward, model, place),
        clip=lambda largest: clip_gradients(model, largest),
        collect=lambda read: collect(model, read, place.everyone.rank),
    )


def parallelize(model: MiniGPT, mesh: DeviceMesh) -> None:
    """Cut the model's layers over the ranks of a mesh, in place."""
    whole, positions = Replicate(), Shard(1)
    gather = PrepareModuleInput(input_layouts=positions, desired_input_layouts=whole)
    plan: dict[str, ParallelStyle] = {
        "bytes": RowwiseParallel(input_layouts=whole, output_layouts=positions),
        "positions": RowwiseParallel(input_layouts=whole, output_layouts=Shard(0)),
        "layers.*.attention_norm": SequenceParallel(),
        "layers.*.attention": gather,
        "layers.*.attention.query_key_value": ColwiseParallel(),
        "layers.*.attention.out": RowwiseParallel(output_layouts=positions),
        "layers.*.feed_forward_norm": SequenceParallel(),
        "layers.*.feed_forward": gather,
        "layers.*.feed_forward.0": ColwiseParallel(),
        "layers.*.feed_forward.2": RowwiseParallel(output_layouts=positions),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=positions, output_layouts=whole),
    }
    parallelize_module(model, mesh, plan)


def backward(model: MiniGPT, place: Place, batch: Tensor, total: Tensor, scale: Scale) -> Tensor:
    """Leave this rank's parts of the gradient of the global mean loss; see ``fsdp.backward``."""
    share = torch.zeros((), device=place.device)
    mesh = place.recipe.mesh
    for piece, last in micro_batches(batch, place.recipe.micro_batches):
        if "dp" in mesh:
            cast(FSDPModule, model).set_requires_gradient_sync(last)
        # FSDP has a precision of its own.
        with nullcontext() if "dp" in mesh else autocast(place):
            loss = summed_next_byte_loss(model, piece) / total
        # FSDP takes the mean of the gradients along dp.
        scale(loss * mesh.get("dp", 1)).backward()
        share = share + loss.detach()
    reduce_gradients(model)
    # Each rank of the group has the whole loss of the same batch.
    return share / mesh["tp"]


def reduce_gradients(model: nn.Module) -> None:
    """Lay each gradient out as its parameter is, once: the optimizer would do so in every use.

    A norm's parameters are on all ranks, which see a part of the positions each: their gradients
    are parts of a sum. FSDP has done it for what it shards.
    """
    for parameter in model.parameters():
        gradient = cast(DTensor, parameter.grad)
        parameter.grad = gradient.redistribute(placements=cast(DTensor, parameter).placements)
