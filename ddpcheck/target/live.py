"""A target put on this rank's device and wrapped: what is rehearsed and probed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Protocol, cast

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.errors import TargetError
from ddpcheck.target.target import Loss, Target

DEFAULT_LEARNING_RATE = 0.01


class Trained(Protocol):
    """What observers may know of a training: the bare model and the wrapped one, and its device.

    ``optimizer`` is None as long as it has made no step, ``loader`` an empty tuple where no
    DataLoader was seen. ``beside`` are other models in DistributedDataParallel on the same ranks, as
    of a GAN, in the order in which they were made.
    """

    @property
    def module(self) -> nn.Module: ...  # noqa: D102
    @property
    def model(self) -> nn.Module: ...  # noqa: D102
    @property
    def ddp(self) -> DistributedDataParallel | None: ...  # noqa: D102
    @property
    def optimizer(self) -> torch.optim.Optimizer | None: ...  # noqa: D102
    @property
    def loader(self) -> Any: ...  # noqa: D102
    @property
    def beside(self) -> Sequence[DistributedDataParallel]: ...  # noqa: D102
    @property
    def device(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class LiveTarget:
    """A target in place: ``module`` is the bare model, ``model`` the wrapped one."""

    name: str
    is_built_in: bool
    module: nn.Module
    model: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Loss
    loader: Any
    device: str
    beside: Sequence[DistributedDataParallel] = ()

    @property
    def ddp(self) -> DistributedDataParallel | None:
        """Return the model as DistributedDataParallel, or None when it is wrapped otherwise."""
        return self.model if isinstance(self.model, DistributedDataParallel) else None

    def batches(self) -> Iterator[Any]:
        """Yield batches without end, as the loader gives them; raises TargetError if none."""
        for epoch in count():
            # As a training would: a DistributedSampler repeats its order without it.
            set_epoch = getattr(getattr(self.loader, "sampler", None), "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
            empty = True
            for batch in self.loader:
                empty = False
                yield batch
            if empty:
                raise TargetError(f"--target {self.name}: the loader gives no batch on this rank")


def go_live(
    target: Target,
    name: str,
    *,
    is_built_in: bool,
    device: str,
    on_placed: Callable[[nn.Module], None] = lambda _module: None,
) -> LiveTarget:
    """Place the target on ``device`` and wrap it; raises what the user's wrap raises.

    ``on_placed`` gets the bare model before it is wrapped.
    """
    module = _placed(target.model, device)
    on_placed(module)
    wrap = target.wrap or _ddp_on(device)
    # An optimizer built before DDP is fine: DDP keeps the parameters.
    model = wrap(module)
    optimizer = target.optimizer or torch.optim.SGD(model.parameters(), lr=DEFAULT_LEARNING_RATE)
    return LiveTarget(
        name=name,
        is_built_in=is_built_in,
        module=getattr(model, "module", module),
        model=model,
        optimizer=optimizer,
        loss=target.loss,
        loader=target.loader,
        device=device,
    )


def map_tensors(batch: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return the batch with ``change`` applied to every tensor in its containers."""
    if isinstance(batch, torch.Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        entries = {key: map_tensors(value, change) for key, value in batch.items()}
        return _mapping_like(batch, entries)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, change) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(value, change) for value in batch)
    return batch


def _mapping_like(batch: Mapping[Any, Any], entries: dict[Any, Any]) -> Mapping[Any, Any]:
    """Return the entries as a mapping of the batch's type, whose entries may be attributes."""
    make: Any = type(batch)
    try:
        return cast("Mapping[Any, Any]", make(entries))
    except TypeError:  # it is made in another way
        return entries


def tensors_in(batch: Any) -> list[torch.Tensor]:
    """Return every tensor in the batch, in order."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    parts = batch.values() if isinstance(batch, Mapping) else batch
    is_container = isinstance(batch, Mapping | list | tuple)
    return [tensor for part in parts for tensor in tensors_in(part)] if is_container else []


def moved(batch: Any, device: str) -> Any:
    """Return the batch on ``device``."""
    return map_tensors(batch, lambda tensor: tensor.to(device, non_blocking=True))


def settle(device: str) -> None:
    """Wait until the device has done all its queued work."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def _placed(module: nn.Module, device: str) -> nn.Module:
    # A model that its factory placed itself is left as it is, for the placement audit.
    places = {tensor.device.type for tensor in chain(module.parameters(), module.buffers())}
    return module.to(device) if places == {"cpu"} else module


def _ddp_on(device: str) -> Callable[[nn.Module], nn.Module]:
    def wrap(module: nn.Module) -> nn.Module:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            raise TargetError("the target's model has no parameter that requires a gradient")
        return DistributedDataParallel(
            module,
            device_ids=None if device == "cpu" else [torch.device(device)],
            gradient_as_bucket_view=True,
        )

    return wrap
