"""One process trains the whole global batch: what all others are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import cast

import msgspec
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, summed_next_byte_loss
from ddpcheck.train.dtensor import clip_gradients, collect
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import ALONE, Mesh, Needs, Parallel, Place, Scale
from ddpcheck.train.precision import HALF, autocast
from ddpcheck.train.recipe import Recipe

AXES = ("dp",)
DATA_AXES = AXES
VARIANTS: Sequence[Mapping[str, str]] = ({},)


class Options(msgspec.Struct, frozen=True):
    """cast_weights: half precision has all in it, as FSDP does, rather than by autocast.

    bf16_gradients: gradients are rounded, as those that are compressed to be sent.
    """

    cast_weights: bool = False
    bf16_gradients: bool = False


def meshes(world_size: int) -> list[Mesh]:
    """Return the one mesh."""
    return [{"dp": world_size}]


def obstacle(recipe: Recipe, _config: MiniGPTConfig) -> str:
    """Return why one process cannot train: there are more."""
    return "it is one process: use --nproc-per-node 1" if recipe.mesh["dp"] > 1 else ""


def needs(_recipe: Recipe) -> Needs:
    """Return that it needs nothing."""
    return Needs()


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return the model as it is."""
    model.to(place.device)
    half = HALF.get(place.recipe.precision)
    options = place.options(Options)
    cast_all = options.cast_weights and half is not None
    reads = _CastWeights(model, half) if cast_all else model

    def backward(batch: Tensor, total: Tensor, scale: Scale) -> Tensor:
        share = torch.zeros((), device=place.device)
        for piece, _ in micro_batches(batch, place.recipe.micro_batches):
            with nullcontext() if cast_all else autocast(place):
                loss = summed_next_byte_loss(reads, piece) / total
            scale(loss).backward()
            share = share + loss.detach()
        if options.bf16_gradients:
            _round_gradients(model)
        return share

    return Parallel(
        model=model,
        optimizer=adamw(model),
        data=ALONE,
        backward=backward,
        clip=lambda largest: clip_gradients(model, largest),
        collect=lambda read: collect(model, read, rank=0),
    )


def _round_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad.to(torch.bfloat16).to(parameter.dtype)


class _CastWeights(nn.Module):
    """A model that computes with its weights cast to another type; they keep their own."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None) -> None:
        super().__init__()
        self._model = model
        self._dtype = dtype

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what the model returns."""
        weights = {name: each.to(self._dtype) for name, each in self._model.named_parameters()}
        return cast(Tensor, functional_call(self._model, weights, (inputs,)))
