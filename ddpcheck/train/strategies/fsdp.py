"""Every rank holds a shard of each layer, and gathers it while it computes: FSDP2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import msgspec
import torch
from torch import Tensor
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, summed_next_byte_loss
from ddpcheck.train.dtensor import clip_gradients, collect
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import Mesh, Needs, Parallel, Place, Scale, options_of
from ddpcheck.train.precision import HALF
from ddpcheck.train.recipe import Recipe

if TYPE_CHECKING or find_spec("torch.distributed.fsdp._fully_shard"):
    from torch.distributed.fsdp import (
        CPUOffloadPolicy,
        FSDPModule,
        MixedPrecisionPolicy,
        OffloadPolicy,
        fully_shard,
    )
else:  # before torch 2.6
    from torch.distributed._composable.fsdp import (
        CPUOffloadPolicy,
        FSDPModule,
        MixedPrecisionPolicy,
        OffloadPolicy,
        fully_shard,
    )

# With the class that others ask for, which is elsewhere in older versions.
__all__ = ["AXES", "DATA_AXES", "VARIANTS", "FSDPModule", "Options", "build", "meshes", "needs"]
__all__ += ["obstacle", "shard"]

AXES = ("dp",)
DATA_AXES = AXES
VARIANTS: Sequence[Mapping[str, str]] = (
    {},
    {"activation_checkpointing": "true"},
    {"reshard_after_forward": "false"},
    {"cpu_offload": "true"},
)
FORCE_SUM = "set_force_sum_reduction_for_comms"


class Options(msgspec.Struct, frozen=True):
    """What saves memory for time: activations that are computed twice, shards that wait in RAM."""

    activation_checkpointing: bool = False
    cpu_offload: bool = False
    reshard_after_forward: bool = True


def meshes(world_size: int) -> list[Mesh]:
    """Return the one mesh: all ranks hold a shard."""
    return [{"dp": world_size}]


def obstacle(recipe: Recipe, _config: MiniGPTConfig) -> str:
    """Return why it cannot run: any number of ranks will do, but not all options anywhere."""
    if recipe.device == "cpu" and options_of(recipe, Options).cpu_offload:
        return "cpu_offload is for GPUs: leave it out"
    return ""


def needs(recipe: Recipe) -> Needs:
    """Return how it rounds in half precision: weights and the residual stream, too."""
    return Needs(
        rounding={} if recipe.precision == "fp32" else {"cast_weights": "true"},
        # The norm of gradients that wait in RAM is added up there.
        cpu_collectives=options_of(recipe, Options).cpu_offload,
    )


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return this rank's shards; layers are gathered and let go one by one."""
    sharded = shard(model.to(place.device), place, place.device_mesh(), place.options(Options))
    return Parallel(
        model=sharded,
        # Built on the shards: one that was built before would update tensors nobody uses.
        optimizer=adamw(sharded),
        data=place.everyone,
        backward=partial(backward, sharded, place),
        clip=lambda largest: clip_gradients(sharded, largest),
        collect=lambda read: collect(sharded, read, place.everyone.rank),
    )


def shard(model: MiniGPT, place: Place, mesh: DeviceMesh, options: Options) -> MiniGPT:
    """Return the model with each layer, and then all that is left, sharded over the mesh."""
    if options.activation_checkpointing:
        for name, layer in model.layers.named_children():
            model.layers.register_module(name, checkpoint_wrapper(layer))
    settings: dict[str, Any] = {
        "mesh": mesh,
        "mp_policy": _precision_policy(place),
        "offload_policy": CPUOffloadPolicy() if options.cpu_offload else OffloadPolicy(),
        "reshard_after_forward": options.reshard_after_forward,
    }
    for layer in model.layers:
        fully_shard(layer, **settings)
    # The root last: what no layer took, embeddings, norm and head, is gathered as one.
    fully_shard(model, **settings)
    if place.recipe.backend == "gloo":
        _sum_instead_of_mean(model)
    return model


def backward(model: MiniGPT, place: Place, batch: Tensor, total: Tensor, scale: Scale) -> Tensor:
    """Leave this rank's shards of the gradient of the global mean loss; see ``ddp.backward``.

    Like DDP, FSDP takes the mean of the ranks' gradients.
    """
    share = torch.zeros((), device=place.device)
    for piece, last in micro_batches(batch, place.recipe.micro_batches):
        # Gradients that are still to grow stay whole on each rank, which takes their memory.
        cast(FSDPModule, model).set_requires_gradient_sync(last)
        loss = summed_next_byte_loss(model, piece) / total
        scale(loss * place.everyone.size).backward()
        share = share + loss.detach()
    return share


def _precision_policy(place: Place) -> MixedPrecisionPolicy:
    # Autocast would cast each rank's gathered weights anew for every use; this casts the shards
    # before they travel. Gradients are summed in fp32.
    half = HALF.get(place.recipe.precision)
    reduce_dtype = torch.float32 if half else None
    if place.recipe.backend == "gloo" and not hasattr(FSDPModule, FORCE_SUM):
        # Gloo knows no mean. Before torch 2.8, only formats other than fp32 and bf16 are summed
        # and then divided.
        reduce_dtype = torch.float64
    return MixedPrecisionPolicy(param_dtype=half, reduce_dtype=reduce_dtype)


def _sum_instead_of_mean(model: MiniGPT) -> None:
    # Gloo knows no mean: let FSDP sum, and divide by itself.
    for module in model.modules():
        if isinstance(module, FSDPModule) and hasattr(module, FORCE_SUM):
            module.set_force_sum_reduction_for_comms(enable=True)
