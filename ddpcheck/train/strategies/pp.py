"""Ranks hold neighbouring layers and pass micro-batches on: a pipeline, with DDP across pipelines."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any, Literal

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.target.minigpt import (
    MiniGPT,
    MiniGPTConfig,
    inputs_and_answers,
    summed_cross_entropy,
)
from ddpcheck.train.optimizer import adamw
from ddpcheck.train.parallel import (
    Mesh,
    Needs,
    Parallel,
    Place,
    Read,
    Scale,
    Share,
    share_along,
)
from ddpcheck.train.precision import autocast
from ddpcheck.train.recipe import Recipe

AXES = ("dp", "pp")
DATA_AXES = ("dp",)
VARIANTS: Sequence[Mapping[str, str]] = ({"schedule": "1f1b"}, {"schedule": "gpipe"})
PAIR = 2
# So that a norm of zero divides nothing by zero, as in torch's clip_grad_norm_.
TINY = 1e-6
SCHEDULES: Mapping[str, Callable[..., Any]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Options(msgspec.Struct, frozen=True):
    """schedule: gpipe has all micro-batches in memory at once; 1f1b only as many as stages."""

    schedule: Literal["gpipe", "1f1b"] = "1f1b"


def meshes(world_size: int) -> list[Mesh]:
    """Return one pipeline of all ranks, and pipelines of two that share out the batch."""
    pairs, left = divmod(world_size, PAIR)
    one_pipeline: Mesh = {"pp": world_size}
    return [one_pipeline] if left or pairs == 1 else [one_pipeline, {"dp": pairs, "pp": PAIR}]


def obstacle(recipe: Recipe, config: MiniGPTConfig) -> str:
    """Return why it cannot run: every stage is to hold something."""
    stages, pieces = recipe.mesh.get("pp", 1), pieces_of(config.layers)
    if stages == 1:
        return "it needs two ranks along pp, or more"
    if stages > pieces:
        return f"{stages} stages cannot share out {pieces} pieces: choose another --mesh"
    return ""


def needs(recipe: Recipe) -> Needs:
    """Return that there are as many micro-batches as stages, or some would never be at work."""
    return Needs(micro_batches=recipe.mesh["pp"])


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return this rank's stage; along dp, its replicas' gradients are added."""
    pipeline = Pipeline(model, place)
    stage, stages = pipeline.stage, pipeline.stages
    return Parallel(
        model=stage,
        optimizer=adamw(stage),
        data=pipeline.data,
        backward=pipeline.backward,
        clip=lambda largest: clip_over_stages(stage, stages, largest),
        collect=pipeline.collect,
        # The stages agree on how to begin, by what they tell each other.
        pretends=False,
    )


class Pipeline:
    """The stage of this rank, at work with the others; ``data`` says which pipeline it is in."""

    def __init__(self, model: MiniGPT, place: Place) -> None:
        mesh = place.device_mesh()
        # All stages of a pipeline work on the same: they must have the same batch.
        self.data, self.stages = share_along(mesh, "dp"), share_along(mesh, "pp")
        every = [
            Stage(model, number, self.stages.size, place) for number in range(self.stages.size)
        ]
        self.stage = every[self.stages.rank].to(place.device)
        self._place = place
        self._width = model.norm.weight.shape[0]
        self._ranks = dist.get_process_group_ranks(self.stages.group)
        self._owners = {
            name: (rank, parameter.to("meta"))
            for rank, stage in zip(self._ranks, every, strict=True)
            for name, parameter in stage.named_parameters()
        }
        self._replica = _replicated(self.stage, place.recipe, self.data)
        self._loss = Loss(self.data.size)
        self._schedule: Any = None

    def backward(self, batch: Tensor, total: Tensor, scale: Scale) -> Tensor:
        """Leave the gradient of the global mean loss in this stage; see ``ddp.backward``."""
        inputs, answers = inputs_and_answers(batch)
        # On every stage: a scaler that has scaled nothing can unscale nothing.
        self._loss.begin(total, scale(torch.ones((), device=batch.device)))
        self._schedule = self._schedule or self._scheduled(inputs)
        if self.stage.is_first:
            self._schedule.step(inputs)
        elif self.stage.is_last:
            self._schedule.step(target=answers)
        else:
            self._schedule.step()
        return self._loss.share

    def collect(self, read: Read) -> dict[str, Tensor]:
        """Return every parameter, whichever stage has it; see ``Parallel.collect``."""
        own = dict(self.stage.named_parameters())
        found: dict[str, Tensor] = {}
        for name, (owner, like) in self._owners.items():
            if name in own:
                tensor = read(own[name]).detach().contiguous()
            else:
                tensor = torch.empty_like(like, device=self._place.device)
            dist.broadcast(tensor, src=owner, group=self.stages.group)
            if self._place.everyone.rank == 0:
                found[name] = tensor.cpu()
        return found

    def _scheduled(self, inputs: Tensor) -> Any:
        """Return the schedule for batches that are as large as these inputs."""
        recipe = self._place.recipe
        piece = inputs[: len(inputs) // recipe.micro_batches]
        if not self.stage.is_first:
            piece = torch.zeros((*piece.shape, self._width), device=inputs.device)
            piece.requires_grad_()
        # What a stage gets and gives: told here, the stages need not find it out together, for
        # which torch would run loss and backward once more.
        # The step to come draws its random numbers as if this had not been.
        with torch.random.fork_rng([inputs.device] if inputs.is_cuda else []):
            given = self.stage(piece).detach().requires_grad_()
        stage = PipelineStage(
            self._replica,
            self.stages.rank,
            self.stages.size,
            inputs.device,
            input_args=(piece.to("meta"),),
            output_args=(given.to("meta"),),
            group=self.stages.group,
        )
        name = self._place.options(Options).schedule
        return schedule_of(name, stage, recipe.micro_batches, self._loss)


def pieces_of(layers: int) -> int:
    """Return how many pieces a model is made of: its embeddings, its layers, and its head."""
    return layers + 2


class Stage(nn.Module):
    """Neighbouring pieces of a MiniGPT, under the names that they have there."""

    def __init__(self, model: MiniGPT, number: int, count: int, place: Place) -> None:
        super().__init__()
        pieces = pieces_of(len(model.layers))
        own = range(pieces * number // count, pieces * (number + 1) // count)
        self.is_first, self.is_last = number == 0, number == count - 1
        self._place = place
        if self.is_first:
            self.bytes, self.positions = model.bytes, model.positions
        layers = enumerate(model.layers.named_children(), 1)
        self.layers = nn.Sequential(OrderedDict(layer for piece, layer in layers if piece in own))
        if self.is_last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens, int64 [batch, block], or what the stage before returned, to what follows.

        That is [batch, block, width], and of the last stage the logits [batch, block, vocab].
        """
        # In here: the backward pass, which the schedule runs as well, is not for autocast.
        with autocast(self._place):
            if self.is_first:
                position = torch.arange(x.shape[1], device=x.device)
                x = self.bytes(x) + self.positions(position)
            x = self.layers(x)
            return self.head(self.norm(x)) if self.is_last else x


def part_of_the_loss(logits: Tensor, answers: Tensor, total: Tensor) -> Tensor:
    """Return what a micro-batch adds to the global mean: its sum, over all predictions of all.

    A mean over the micro-batch would have to be divided by their number; and if they differ in
    their predictions, the mean of means is another one.
    """
    return summed_cross_entropy(logits, answers) / total


def schedule_of(name: str, stage: PipelineStage, micro_batches: int, loss: Any) -> Any:
    """Return a schedule of the stage, which leaves gradients as the loss has them."""
    kind = SCHEDULES[name]
    # Divided by the number of micro-batches, they are right for losses that are means over each.
    # Before torch 2.6 nothing is divided.
    unscaled: dict[str, Any] = (
        {"scale_grads": False} if "scale_grads" in signature(kind).parameters else {}
    )
    return kind(stage, micro_batches, loss_fn=loss, **unscaled)


class Loss:
    """What the last stage differentiates; it adds up what the micro-batches of a step have lost."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def begin(self, total: Tensor, factor: Tensor) -> None:
        """Begin a step: ``total`` is its number of predictions, ``factor`` what scales losses."""
        self._total, self._factor = total, factor
        self.share = torch.zeros_like(factor)

    def __call__(self, logits: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of one micro-batch, scaled; DDP takes the mean of the replicas."""
        loss = part_of_the_loss(logits, answers, self._total)
        self.share = self.share + loss.detach()
        return loss * self._replicas * self._factor


def clip_over_stages(stage: nn.Module, stages: Share, largest: float) -> Tensor:
    """Scale the gradients down to a norm of all stages together; returns the norm before."""
    gradients = [each.grad for each in stage.parameters() if each.grad is not None]
    squares = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    norm = stages.sum(squares).sqrt()
    factor = (largest / (norm + TINY)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


def _replicated(stage: Stage, recipe: Recipe, data: Share) -> nn.Module:
    if data.size == 1:
        return stage
    return DistributedDataParallel(
        stage,
        process_group=data.group,
        bucket_cap_mb=recipe.bucket_cap_mb,
        gradient_as_bucket_view=recipe.gradient_as_bucket_view,
    )
