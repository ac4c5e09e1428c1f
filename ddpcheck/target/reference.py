"""Gradients of a target on a small slice: as DDP gives them, and as one process would."""

from __future__ import annotations

import base64
import copy
import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from ddpcheck.check import Skip
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.live import LiveTarget, map_tensors, moved, tensors_in
from ddpcheck.target.sketch import sketch, sketch_all
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


def gradient(
    model: nn.Module, loss: Loss, batch: Any, *, of: nn.Module | None = None
) -> dict[str, torch.Tensor]:
    """Return a copy of each parameter's gradient on ``batch``; leaves none behind.

    The names are those in ``of``, the bare module when ``model`` is a wrapper of it.
    """
    owner = of or model
    owner.zero_grad(set_to_none=True)
    loss(model, batch).backward()
    found = {
        name: parameter.grad.detach().clone()
        for name, parameter in owner.named_parameters()
        if parameter.grad is not None
    }
    owner.zero_grad(set_to_none=True)
    return found


def rehearse_loss(live: LiveTarget, batch: Any) -> None:
    """Raise Skip unless the bare module's loss can be computed in a ``steady`` state."""
    try:
        with steady(live.module), torch.no_grad():
            live.loss(live.module, batch)
    except Exception as error:
        raise Skip(f"the loss does not compute in evaluation mode: {_line(error)}") from error


def communicates(live: LiveTarget, batch: Any) -> bool:
    """Return whether the bare module's loss calls collectives, by the group's own count."""
    count = getattr(dist.group.WORLD, "_get_sequence_number_for_group", None)
    if count is None:
        return False
    before = int(count())
    with steady(live.module), torch.no_grad():
        live.loss(live.module, batch)
    return int(count()) != before


def joined_gradient(live: LiveTarget, slices: Sequence[Any]) -> dict[str, torch.Tensor]:
    """Return the float64 gradient of one process on all slices as one batch.

    Raises Skip where the target cannot be computed so.
    """
    try:
        return _gradient_alone(live, _joined(slices))
    except (RuntimeError, ValueError) as error:
        raise Skip(f"the ranks' batches cannot be joined: {_line(error)}") from error


def compare(
    live: LiveTarget,
    piece: Any,
    texts: Sequence[bytes],
    rank: int,
    synced: Mapping[str, torch.Tensor],
) -> Comparison | str:
    """Compare DDP's gradient with that of one process, or return why that cannot be done.

    ``texts`` are the slices of all ranks, ``piece`` this rank's own. A loss that communicates
    is not compared: what it is on the joined batch, only its author knows.
    """
    if communicates(live, moved(piece, live.device)):
        return "the loss communicates with other ranks: one process alone has no such loss"
    try:
        shaped = [_in_shape_of(piece, from_text(text)) for text in texts]
        first, again = (_gradient_alone(live, shaped[rank]) for _ in range(2))
        distances_to = distances(live, shaped, synced)
    except Skip as skip:
        return str(skip)
    own = sketch_all(first.items())
    # By their bits: a loss that is not a number is the same each time, and not equal to itself.
    if {n: o.digest for n, o in own.items()} != {n: sketch(a).digest for n, a in again.items()}:
        return "the loss draws random numbers, so that no two computations of it agree"
    return Comparison(own, distances_to)


class Comparison(NamedTuple):
    """One rank's own gradient by itself, and DDP's beside that of one process.

    ``distances``: by parameter, the norm of the joined batch's gradient and DDP's distance.
    """

    own: dict[str, Sketch]
    distances: dict[str, tuple[float, float]]


def distances(
    live: LiveTarget, slices: Sequence[Any], synced: Mapping[str, torch.Tensor]
) -> dict[str, tuple[float, float]]:
    """Return, by parameter, the norm of the joined batch's gradient and its distance to DDP's.

    A parameter that DDP gives no gradient is as far away as its gradient is long.
    """
    found: dict[str, tuple[float, float]] = {}
    for name, exact in joined_gradient(live, slices).items():
        given = synced[name].to_dense().double() if name in synced else torch.zeros_like(exact)
        found[name] = float(exact.norm()), float((given - exact).norm())
    return found


@contextmanager
def steady(module: nn.Module) -> Generator[None]:
    """Keep dropout from drawing and BatchNorm from using or changing batch statistics.

    With batch statistics, the gradient of a mean over ranks is not that of the joined batch.
    Recurrent layers stay in training mode, without which cuDNN gives no gradients.
    """
    modes = {part: part.training for part in module.modules()}
    dropouts = {part: part.dropout for part in modes if isinstance(part, nn.RNNBase)}
    module.eval()
    for recurrent in dropouts:
        recurrent.training, recurrent.dropout = modes[recurrent], 0.0
    try:
        yield
    finally:
        for part, training in modes.items():
            part.training = training
        for recurrent, dropout in dropouts.items():
            recurrent.dropout = dropout


@contextmanager
def repeatable(device: str) -> Generator[None]:
    """Let what draws random numbers inside draw the same ones each time."""
    with torch.random.fork_rng([] if device == "cpu" else [device]):
        torch.manual_seed(0)
        yield


def to_text(batch: Any) -> str:
    """Return a batch's tensors in a form that ``from_text`` reads on another rank."""
    buffer = io.BytesIO()
    torch.save(tensors_in(batch), buffer)
    return base64.b64encode(buffer.getvalue()).decode()


def from_text(text: bytes) -> list[torch.Tensor]:
    """Return the tensors, in order, of the batch that another rank of this run wrote."""
    return list(torch.load(io.BytesIO(base64.b64decode(text)), weights_only=True))


def rounding_unit(live: LiveTarget, batch: Any) -> float:
    """Return the coarsest rounding unit (eps) of the parameters and of what the loss computes in.

    Under autocast, matrix products are rounded to a shorter dtype than the parameters have.
    """
    seen: set[torch.dtype] = {p.dtype for p in live.module.parameters() if p.is_floating_point()}

    def look(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen.update(each.dtype for each in tensors_in(output) if each.is_floating_point())

    hooks = [part.register_forward_hook(look) for part in live.module.modules()]
    with steady(live.module), torch.no_grad():
        live.loss(live.module, batch)
    for hook in hooks:
        hook.remove()
    return max((torch.finfo(dtype).eps for dtype in seen), default=0.0)


def _gradient_alone(live: LiveTarget, batch: Any) -> dict[str, torch.Tensor]:
    """Return the float64 gradient of a copy of the bare module, which has none of its hooks."""
    if sum(p.numel() for p in live.module.parameters()) > REFERENCE_LIMIT_PARAMETERS:
        raise Skip(f"the model has more than {REFERENCE_LIMIT_PARAMETERS:,} parameters")
    try:
        alone = copy.deepcopy(live.module).double()
        with steady(alone):
            found = gradient(alone, live.loss, moved(_doubled(batch), live.device))
    except Exception as error:
        raise Skip(f"the target does not compute in float64: {_line(error)}") from error
    return {name: each.to_dense() if each.is_sparse else each for name, each in found.items()}


def _joined(slices: Sequence[Any]) -> Any:
    """Return the first slice with each tensor joined with those in its place in the others."""
    columns = iter(list(zip(*(tensors_in(each) for each in slices), strict=True)))

    def join(first: torch.Tensor) -> torch.Tensor:
        column = next(columns)
        return torch.cat(column) if first.dim() else first

    return map_tensors(slices[0], join)


def _in_shape_of(mould: Any, tensors: Sequence[torch.Tensor]) -> Any:
    own = iter(tensors)
    if len(tensors) != len(tensors_in(mould)):
        raise Skip("the ranks' batches cannot be joined: they have not the same tensors")
    return map_tensors(mould, lambda _tensor: next(own))


def _doubled(batch: Any) -> Any:
    return map_tensors(batch, lambda t: t.double() if t.is_floating_point() else t)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
