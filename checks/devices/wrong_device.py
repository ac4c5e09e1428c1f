"""A tensor of the training is on another device than its rank.

Why it matters
    A parameter, batch or optimizer state on the wrong device fails late, or silently costs
    a copy in every step. A rank that opened a context on another rank's GPU holds hundreds
    of megabytes there, and the rank it belongs to runs out of memory first.

What to do
    Call torch.cuda.set_device(LOCAL_RANK) before anything else touches CUDA, write
    ``cuda:{LOCAL_RANK}`` instead of ``cuda:0``, and pass map_location to torch.load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.utils.hooks import RemovableHandle

    from ddpcheck.target.live import Trained

# How many misplaced tensors one rank keeps: the first ones show the pattern.
KEPT_TENSORS = 8


class Facts(msgspec.Struct, frozen=True):
    """What was looked at, what is misplaced (kind, name, device), and contexts by GPU UUID."""

    device: str
    looked_at: int
    misplaced: tuple[tuple[str, str, str], ...]
    contexts_elsewhere: tuple[str, ...]


class Observer:
    """Looks at every tensor that training touches, in its first step and after its last."""

    def __init__(self, ctx: Context) -> None:
        self._device, self._watches = ctx.device, ctx.watches
        self._placed = False
        self._live: Trained | None = None
        self._hook: RemovableHandle | None = None
        self._seen: dict[tuple[str, str], str] = {}

    def on_placed(self, module: nn.Module) -> None:
        """Look at the model: wrapping it may already raise."""
        self._placed = True
        self._look("parameter", module.named_parameters())
        self._look("buffer", module.named_buffers())

    def on_built(self, live: Trained) -> None:
        """Put a hook on what goes into the model."""
        self._live = live
        # DDP moves what it is given to its device: look before it does.
        self._hook = live.model.register_forward_pre_hook(self._on_input, with_kwargs=True)

    def on_batch(self, step: int, batch: object) -> None:
        """Look at the batch as the loader gave it: on the CPU, or on the rank's device."""
        if step == 0:
            self._look("batch", self._numbered(batch), also="cpu")

    def on_loss(self, step: int, loss: torch.Tensor) -> None:
        """Look at the loss."""
        if step == 0:
            self._look("loss", [("loss", loss)])

    def facts(self) -> Facts:
        """Look at the optimizer's state and at contexts elsewhere; return it all."""
        from ddpcheck.target.contexts import contexts_elsewhere

        if self._hook is not None:
            self._hook.remove()
        if self._watches:
            raise Skip("a script chooses its devices itself: try its model with run --target")
        if not self._placed:
            raise Skip("the target was not built")
        if self._live is not None:
            self._look("optimizer state", self._optimizer_state(self._live))
        wrong = [(what, name, where) for (what, name), where in self._seen.items() if where]
        elsewhere = tuple(contexts_elsewhere(self._device))
        return Facts(self._device, len(self._seen), tuple(wrong[:KEPT_TENSORS]), elsewhere)

    def _on_input(self, _module: object, args: Any, kwargs: Any) -> None:
        # Lengths of packed sequences, for one, belong on the CPU.
        self._look("model input", self._numbered((args, kwargs)), also="cpu")

    def _look(self, what: str, named: Iterable[tuple[str, torch.Tensor]], also: str = "") -> None:
        for name, tensor in named:
            where = str(tensor.device)
            self._seen[what, name] = "" if where in {self._device, also} else where

    def _numbered(self, batch: object) -> list[tuple[str, torch.Tensor]]:
        from ddpcheck.target.live import tensors_in

        return [(f"tensor {n}", each) for n, each in enumerate(tensors_in(batch))]

    def _optimizer_state(self, live: Trained) -> list[tuple[str, torch.Tensor]]:
        # A step counter is a scalar that optimizers keep on the CPU on purpose.
        return [
            (f"{number}.{key}", value)
            for number, state in enumerate(live.optimizer.state.values() if live.optimizer else ())
            for key, value in state.items()
            if hasattr(value, "device") and not (value.device.type == "cpu" and value.dim() == 0)
        ]


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for misplaced tensors, and one for contexts on others' GPUs."""
    return [*_misplaced(facts), *_elsewhere(facts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was looked at."""
    fact = next(iter(facts.values()))
    if any(each.misplaced or each.contexts_elsewhere for each in facts.values()):
        return f"{fact.looked_at} tensors of the training were looked at"
    return f"{fact.looked_at} tensors of the training are on their rank's device"


def _misplaced(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    bad = {rank: fact.misplaced for rank, fact in sorted(facts.items()) if fact.misplaced}
    for rank, ((what, name, device), *_) in list(bad.items())[:1]:
        yield Finding(
            title=f"a {what} is not on its rank's device",
            message=f"rank {rank} works on {facts[rank].device}, but {what} {name} is on {device}",
            fix=f"move it to the rank's device: cuda:LOCAL_RANK, not a fixed {device}",
            ranks=tuple(bad),
            evidence={str(r): [": ".join(each) for each in bad[r]] for r in bad},
        )


def _elsewhere(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    bad = {rank: fact.contexts_elsewhere for rank, fact in sorted(facts.items())}
    ranks = tuple(rank for rank, held in bad.items() if held)
    for rank in ranks[:1]:
        yield Finding(
            title="a rank holds a context on another GPU",
            message=f"rank {rank} works on {facts[rank].device} and also holds memory on "
            f"{', '.join(bad[rank])}",
            fix="call torch.cuda.set_device(LOCAL_RANK) first; pass map_location to torch.load",
            ranks=ranks,
        )
