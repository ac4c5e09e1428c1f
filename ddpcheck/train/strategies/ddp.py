"""Equal replicas, each on its share of the batch: DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import msgspec
import torch
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, summed_next_byte_loss
from ddpcheck.train.dtensor import clip_gradients, collect
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import Mesh, Needs, Parallel, Place, Scale, options_of
from ddpcheck.train.precision import autocast
from ddpcheck.train.recipe import Recipe

AXES = ("dp",)
DATA_AXES = AXES
VARIANTS: Sequence[Mapping[str, str]] = (
    {},
    {"static_graph": "true"},
    {"bf16_compression": "true"},
)


class Options(msgspec.Struct, frozen=True):
    """static_graph: every step uses the same parameters. bf16_compression: of gradients sent."""

    static_graph: bool = False
    bf16_compression: bool = False


def meshes(world_size: int) -> list[Mesh]:
    """Return the one mesh: all ranks are replicas."""
    return [{"dp": world_size}]


def obstacle(recipe: Recipe, _config: MiniGPTConfig) -> str:
    """Return why it cannot run: any number of ranks will do, but not all options at once."""
    options = options_of(recipe, Options)
    if options.bf16_compression and recipe.backend == "gloo":
        return "bf16_compression is for NCCL, torch refuses it on gloo: leave it out"
    if options.static_graph and recipe.micro_batches > 1:
        # The reducer stops with an internal assertion: it learns the graph in the first pass.
        return "static_graph needs gradients that are sent in every pass: use --micro-batches 1"
    return ""


def needs(recipe: Recipe) -> Needs:
    """Return how it rounds: what is compressed is sent, and summed, in bf16."""
    if options_of(recipe, Options).bf16_compression:
        return Needs(rounding={"bf16_gradients": "true"}, coarsest="bf16")
    return Needs()


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return one of equal replicas; the others' gradients arrive during the backward pass."""
    ddp = replicate(model.to(place.device), place)
    return Parallel(
        model=ddp,
        optimizer=adamw(ddp),
        data=place.everyone,
        backward=lambda batch, total, scale: backward(ddp, place, batch, total, scale),
        # The gradients are the same on all ranks by now: so is the norm, and the clipping.
        clip=lambda largest: clip_gradients(ddp, largest),
        collect=lambda read: collect(ddp.module, read, place.everyone.rank),
    )


def replicate(model: nn.Module, place: Place) -> DistributedDataParallel:
    """Return the model as one of equal replicas on all ranks; it must be on the device."""
    recipe, options = place.recipe, place.options(Options)
    if recipe.sync_batchnorm:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    ddp = DistributedDataParallel(
        model,
        device_ids=[place.device.index] if place.device.type == "cuda" else None,
        bucket_cap_mb=recipe.bucket_cap_mb,
        find_unused_parameters=recipe.find_unused_parameters,
        gradient_as_bucket_view=recipe.gradient_as_bucket_view,
        static_graph=options.static_graph,
    )
    if options.bf16_compression:
        ddp.register_comm_hook(None, bf16_compress_hook)
    return ddp


def backward(
    ddp: DistributedDataParallel, place: Place, batch: Tensor, total: Tensor, scale: Scale
) -> Tensor:
    """Leave the gradient of the global mean loss on every rank; see ``Parallel.backward``.

    DDP takes the mean of the ranks' gradients. A loss that is a mean over the rank would give the
    mean of means, which weighs a rank with fewer predictions too much. Summed / total * ranks
    gives the gradient of the true mean.
    """
    share = torch.zeros((), device=place.device)
    for piece, last in micro_batches(batch, place.recipe.micro_batches):
        # Gradients that are still to grow need not be sent.
        with nullcontext() if last else ddp.no_sync():
            with autocast(place):
                loss = summed_next_byte_loss(ddp, piece) / total
            scale(loss * place.everyone.size).backward()
        share = share + loss.detach()
    return share
