"""What is in a batch, short enough to be kept and compared between ranks."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.hooks import RemovableHandle

from ddpcheck.finding import Location
from ddpcheck.measures.digests import short_digest
from ddpcheck.target.live import Trained, tensors_in
from ddpcheck.watch.batchnorm import Look
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.drawn_values import look_drawn
from ddpcheck.watch.feeds import Feed

# Of each tensor, so many elements from its start tell one batch from another.
KEPT_ELEMENTS = 4096
KEPT_BATCHES = 16


class Keepsake:
    """A copy of the first elements of a batch's tensors, where they are: nothing waits for a GPU."""

    def __init__(self, batch: Any) -> None:
        plain = (each for each in tensors_in(batch) if each.layout is torch.strided)
        tensors = [each.detach() for each in plain if each.numel() and not each.is_meta]
        self._shapes = [f"{each.dtype} {tuple(each.shape)}" for each in tensors]
        self._heads = [each.reshape(-1)[:KEPT_ELEMENTS].clone() for each in tensors]

    def digest(self) -> str:
        """Return a digest, or '' where the tensors tell nothing: all made of one value, say."""
        heads = [head.cpu() for head in self._heads]
        if all(map(_is_of_one_value, heads)):
            return ""
        told = zip(self._shapes, heads, strict=True)
        return short_digest(b"|".join(shape.encode() + _bytes(head) for shape, head in told))

    def heads(self) -> list[torch.Tensor]:
        """Return the first elements of each tensor, on the CPU."""
        return [head.cpu() for head in self._heads]

    def digests(self) -> tuple[str, ...]:
        """Return a digest of each tensor, '' of one that is made of one value."""
        heads = (head.cpu() for head in self._heads)
        return tuple("" if _is_of_one_value(x) else short_digest(_bytes(x)) for x in heads)


class TrainedOn:
    """A part of an observer: keeps the beginnings of the first batches that were trained on.

    These are of the loader whose batch came last before a backward pass.
    """

    def __init__(self) -> None:
        self._fed = self._trained = cast("Feed | None", None)
        self._waiting: list[tuple[Feed | None, Keepsake]] = []
        self._batches: list[Keepsake] = []

    @property
    def location(self) -> Location | None:
        """Return where the loader is iterated over, if it is known."""
        return self._trained.location if self._trained else None

    def digests(self) -> tuple[str, ...]:
        """Return a digest of each batch, '' of one that tells nothing; waits for the device."""
        return tuple(kept.digest() for kept in self._batches[:KEPT_BATCHES])

    def tensors(self) -> tuple[tuple[str, ...], ...]:
        """Return digests of the tensors of each batch."""
        return tuple(kept.digests() for kept in self._batches[:KEPT_BATCHES])

    def on_fed(self, feed: Feed) -> None:
        """Remember whose batch comes next."""
        self._fed = feed

    def on_batch(self, _step: int, batch: Any) -> None:
        """Look at a batch; whether it is trained on is seen later."""
        if len(self._batches) < KEPT_BATCHES:
            # Of an evaluation before the training, the last ones do.
            self._waiting = self._waiting[-KEPT_BATCHES:]
            self._waiting.append((self._fed, Keepsake(batch)))

    def on_loss(self, _step: int, _loss: object) -> None:
        """Keep what has come since the last backward pass, of the loader that came last."""
        self._batches += [kept for feed, kept in self._waiting if feed is self._fed]
        self._waiting.clear()
        self._trained = self._trained or self._fed


class Given:
    """A part of an observer: whether there is a DataLoader, and what goes into a model in DDP.

    A rank may take its part of a batch of all.
    """

    def __init__(self) -> None:
        self.loads = False
        self.location: Location | None = None
        self._inputs: list[Keepsake] = []

    def inputs(self) -> tuple[str, ...]:
        """Return a digest of each of the first inputs; waits for the device."""
        return tuple(kept.digest() for kept in self._inputs)

    def on_built(self, live: Trained) -> None:
        """Note whether there is a DataLoader."""
        self.loads = isinstance(live.loader, DataLoader)

    def on_fed(self, _feed: Feed) -> None:
        """Note that there is one."""
        self.loads = True

    def on_inputs(self, _step: int, inputs: Any) -> None:
        """Look at what goes into the model, and where the script calls it."""
        if len(self._inputs) < KEPT_BATCHES:
            self.location = self.location or users_line()
            self._inputs.append(Keepsake(inputs))


class GivenAny(Given):
    """The same, of a model that FSDP shards, too: of what is sharded last."""

    def __init__(self) -> None:
        super().__init__()
        self._hook: RemovableHandle | None = None

    def close(self) -> tuple[str, ...]:
        """Take the hook off and return a digest of each of the first inputs; waits for the device."""
        self._take_off()
        return self.inputs()

    def on_sharded(self, module: nn.Module, _mesh: Any, _location: Location | None) -> None:
        """Look at what goes into it, and no more into what was a part of it."""
        self._take_off()
        self._hook = module.register_forward_pre_hook(Look(self._called), with_kwargs=True)

    def look_drawn(self) -> bool:
        """Return whether they may be made up; waits for the device."""
        return look_drawn([kept.heads() for kept in self._inputs])

    def _take_off(self) -> None:
        if self._hook is not None:
            self._hook.remove()

    def _called(self, module: nn.Module, arguments: Any, named: Any) -> None:
        if module.training and torch.is_grad_enabled():
            self.on_inputs(0, (arguments, named))


def _is_of_one_value(head: torch.Tensor) -> bool:
    return bool((head == head[0]).all())


def _bytes(head: torch.Tensor) -> bytes:
    return bytes(head.view(torch.uint8).numpy())
