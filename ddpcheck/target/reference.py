"""Gradients of a target on a small slice: as DDP gives them, and as one process would."""

from __future__ import annotations

import base64
import copy
import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from ddpcheck.check import Skip
from ddpcheck.target.live import LiveTarget, map_tensors, moved, tensors_in
from ddpcheck.target.target import Loss

SLICE_SAMPLES = 2
# The reference is a second copy of the model in float64: twice its memory and more.
REFERENCE_LIMIT_PARAMETERS = 100_000_000


def first_slice(live: LiveTarget) -> Any:
    """Return the first samples of this rank's first batch, on the CPU."""
    batch = next(live.batches())
    sizes = {len(tensor) for tensor in tensors_in(batch) if tensor.dim()}
    if len(sizes) != 1:
        raise Skip("the batch cannot be cut: its tensors do not share one first dimension")
    return map_tensors(batch, lambda t: t[:SLICE_SAMPLES].cpu() if t.dim() else t.cpu())


def gradient(module: nn.Module, loss: Loss, batch: Any) -> dict[str, torch.Tensor]:
    """Return a copy of each parameter's gradient on ``batch``, by name; leaves none behind."""
    module.zero_grad(set_to_none=True)
    loss(module, batch).backward()
    found = {
        name.removeprefix("module."): parameter.grad.detach().clone()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
    module.zero_grad(set_to_none=True)
    return found


def joined_gradient(live: LiveTarget, slices: Sequence[Any]) -> dict[str, torch.Tensor]:
    """Return the float64 gradient of one process on all slices as one batch.

    Raises Skip where the target cannot be computed so.
    """
    if sum(p.numel() for p in live.module.parameters()) > REFERENCE_LIMIT_PARAMETERS:
        raise Skip(f"the model has more than {REFERENCE_LIMIT_PARAMETERS:,} parameters")
    batch = moved(_doubled(_joined(slices)), live.device)
    try:
        alone = copy.deepcopy(live.module).double()
        with steady(alone):
            return gradient(alone, live.loss, batch)
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Skip(f"the target does not compute in float64: {reason}") from error


def distances(
    live: LiveTarget, slices: Sequence[Any], synced: Mapping[str, torch.Tensor]
) -> dict[str, tuple[float, float]]:
    """Return, by parameter, the norm of the joined batch's gradient and its distance to DDP's.

    A parameter that DDP gives no gradient is as far away as its gradient is long.
    """
    found: dict[str, tuple[float, float]] = {}
    for name, exact in joined_gradient(live, slices).items():
        given = synced[name].double() if name in synced else torch.zeros_like(exact)
        found[name] = float(exact.norm()), float((given - exact).norm())
    return found


@contextmanager
def steady(module: nn.Module) -> Generator[None]:
    """Keep dropout from drawing and BatchNorm from using or changing batch statistics.

    With batch statistics, the gradient of a mean over ranks is not that of the joined batch.
    """
    unsteady = [
        part
        for part in module.modules()
        if isinstance(part, _DropoutNd | _BatchNorm) and part.training
    ]
    for part in unsteady:
        part.eval()
    try:
        yield
    finally:
        for part in unsteady:
            part.train()


def to_text(batch: Any) -> str:
    """Return a batch in a form that ``from_text`` reads on another rank."""
    buffer = io.BytesIO()
    torch.save(batch, buffer)
    return base64.b64encode(buffer.getvalue()).decode()


def from_text(text: bytes) -> Any:
    """Return the batch that another rank of this run wrote."""
    return torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True)


def _joined(slices: Sequence[Any]) -> Any:
    first = slices[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(list(slices)) if first.dim() else first
    if isinstance(first, dict):
        return {key: _joined([each[key] for each in slices]) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(_joined(column) for column in zip(*slices, strict=True))
    return first


def _doubled(batch: Any) -> Any:
    return map_tensors(batch, lambda t: t.double() if t.is_floating_point() else t)
