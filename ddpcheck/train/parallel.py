"""What a strategy of parallel training is: what it is given, and what it returns.

A strategy is a module of ``ddpcheck/train/strategies``. Its ``build`` makes this rank's part of a
model that all ranks train together, as a ``Parallel``; the loop and the parity test know no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ddpcheck.errors import UsageError
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.recipe import Recipe

OptionsOf = TypeVar("OptionsOf", bound=msgspec.Struct)

# Axis -> number of ranks along it, the outermost first.
Mesh = Mapping[str, int]
# What is differentiated -> the same, scaled: a gradient scaler's ``scale``.
Scale = Callable[[Tensor], Tensor]
# (this rank's batch, predictions of all ranks, scale) -> this rank's share of the mean loss.
Backward = Callable[[Tensor, Tensor, Scale], Tensor]
# A parameter -> what is asked of it, of its own kind and shape: itself, or its gradient.
Read = Callable[[nn.Parameter], Tensor]


@dataclass(frozen=True)
class Share:
    """A rank's place among ranks that do something together; no group: it is alone."""

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of these ranks' values, on the device: reading it is what waits."""
        total = value.clone()
        if self.size > 1:
            dist.all_reduce(total, group=self.group)
        return total


ALONE = Share()


class Engine(Protocol):
    """What keeps model and optimizer; all ranks must call these together."""

    def read(self) -> dict[str, Any]:
        """Return copies of all tensors, named as ``checkpoint.held`` has them."""
        ...

    def put_back(self, state: dict[str, Any]) -> None:
        """Overwrite all tensors with those of a ``state`` that ``read`` returned."""
        ...


def share_along(mesh: DeviceMesh, axis: str) -> Share:
    """Return this rank's place among the ranks along an axis; alone where the mesh has none."""
    if axis not in (mesh.mesh_dim_names or ()):
        return ALONE
    return Share(mesh.get_local_rank(axis), mesh[axis].size(), mesh.get_group(axis))


@dataclass(frozen=True)
class Place:
    """Where a model is made parallel: ``everyone`` are all ranks that train together."""

    recipe: Recipe
    device: torch.device
    everyone: Share = ALONE

    def device_mesh(self) -> DeviceMesh:
        """Return a new mesh of all ranks with the recipe's axes; all ranks must call this."""
        axes = self.recipe.mesh
        return init_device_mesh(
            self.device.type, tuple(axes.values()), mesh_dim_names=tuple(axes.keys())
        )

    def options(self, kind: type[OptionsOf]) -> OptionsOf:
        """Return the options that the user gave, as the strategy's own kind of options."""
        return options_of(self.recipe, kind)


@dataclass(frozen=True)
class Parallel:
    """What a rank holds of a model that is trained in parallel.

    model: the module that this rank holds: all of the model, shards of it, or a stage.
    optimizer: updates what this rank holds, from the gradients that ``backward`` left.
    data: which share of the global batch this rank is given. Ranks with the same place get the
        same data.
    backward: takes this rank's share, int64 [share, block + 1], the number of predictions of the
        global batch, int64 [], and what scales a loss. Leaves, in ``model``, the gradient of the
        global mean loss, scaled. Returns this rank's part of that loss: the parts of all ranks
        add up to it.
    clip: scales the gradients down so that the norm of all of them, over all shards and stages,
        is at most the number given. Returns the norm before, alike on all ranks.
    collect: reads every parameter, on all ranks at once. Returns name -> tensor of the bare
        model's shape, on the CPU of rank 0; nothing on others.
    held_by: the optimizer that has the state of what this rank updates, where that is another one
        than ``optimizer``. Its state, and the model's, make a checkpoint: under the names of the
        bare model, whoever holds them, so that any strategy can read what another one wrote.
    pretends: whether its steps run on collectives that bring nothing; not where what they bring
        decides what is done next.
    engine: where an engine keeps model and optimizer in a way of its own, so that torch's
        state_dict functions do not know them: what reads them for a checkpoint, and puts them back.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: Share
    backward: Backward
    clip: Callable[[float], Tensor]
    collect: Callable[[Read], dict[str, Tensor]]
    held_by: torch.optim.Optimizer | None = None
    pretends: bool = True
    engine: Engine | None = None


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe needs around it.

    rounding: the options of ``single`` with which one process rounds as this recipe does.
    coarsest: the format of that rounding, where it may be coarser than the precision.
    micro_batches: the fewest pieces that a rank must cut its share of the batch into.
    cpu_collectives: whether tensors on the CPU are summed though the device is a GPU.
    """

    rounding: Mapping[str, str] = {}
    coarsest: str = ""
    micro_batches: int = 1
    cpu_collectives: bool = False


class Strategy(Protocol):
    """What a module of ``ddpcheck/train/strategies`` has; the docstring's first line tells of it.

    AXES: the names that its mesh may have, the outermost first.
    DATA_AXES: those of them along which ranks get different data.
    Options: what ``--options`` may say to it; all have defaults.
    VARIANTS: the options that ``--strategy all`` verifies, a row each; the first is what it
        measures with ``--scaling``.
    """

    AXES: tuple[str, ...]
    DATA_AXES: tuple[str, ...]
    Options: type[msgspec.Struct]
    VARIANTS: Sequence[Mapping[str, str]]

    def meshes(self, world_size: int) -> list[Mesh]:
        """Return the meshes to try on so many ranks; the first is the default."""
        ...

    def obstacle(self, recipe: Recipe, config: MiniGPTConfig) -> str:
        """Return why it cannot run on the recipe's mesh, and what to do; '' where it can."""
        ...

    def needs(self, recipe: Recipe) -> Needs:
        """Return what the recipe, which has no obstacle, needs around it."""
        ...

    def build(self, model: MiniGPT, place: Place) -> Parallel:
        """Make the model parallel: on the CPU, and alike on all ranks. All ranks must call it."""
        ...


def options_of(recipe: Recipe, kind: type[OptionsOf]) -> OptionsOf:
    """Return the recipe's options as ``kind``; raises UsageError for what it does not have."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    strangers = sorted(set(recipe.options) - set(known))
    if strangers:
        raise UsageError(
            f"--options {strangers[0]}: {recipe.strategy} has {', '.join(known) or 'none'}"
        )
    try:
        return msgspec.convert(dict(recipe.options), kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"--options of {recipe.strategy}: {error}") from error
