"""The events of a training that knows nothing of them, from torch's extension points.

What has no extension point is wrapped where all find it: the making of DDP, the iterators of
DataLoader, ``Tensor.backward``. ``close`` puts all back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from threading import current_thread, main_thread
from time import perf_counter
from typing import Any
from weakref import WeakSet, WeakValueDictionary

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._pytree import tree_leaves
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.hooks import RemovableHandle

from ddpcheck.watch.feeds import Feeds
from ddpcheck.watch.functions import Functions
from ddpcheck.watch.meetings import Meetings
from ddpcheck.watch.optimizers import only_makes_state, telling_once
from ddpcheck.watch.replaced import Around, Replaced
from ddpcheck.watch.replicas import group_of
from ddpcheck.watch.schedules import Schedules
from ddpcheck.watch.stream import EventStream
from ddpcheck.watch.trained import (
    ParametersOf,
    Watched,
    device_in_use,
    device_of,
    has_values,
    parameters_of,
    shares,
)
from ddpcheck.watch.transfers import Transfers


class Hooks:
    """Tells of a script's training; calls ``on_enough`` after ``steps`` optimizer steps, if any.

    ``begin`` makes the stream when there is something to tell, given the device in use.
    """

    def __init__(
        self,
        begin: Callable[[str], EventStream],
        steps: int,
        on_enough: Callable[[], None],
    ) -> None:
        self._begin = begin
        self._enough = steps
        self._on_enough = on_enough
        self._stream: EventStream | None = None
        self._replaced = Replaced()
        self._handles: list[RemovableHandle] = []
        self._live: Watched | None = None
        # By the order in which they were made, which is the same on all ranks.
        self._ddps: WeakValueDictionary[int, DistributedDataParallel] = WeakValueDictionary()
        self._made_ddps = count()
        self._strangers: WeakSet[Optimizer] = WeakSet()
        self._feeds = Feeds(
            lambda *told: self.stream().emit(*told),
            lambda: self.step,
            lambda: self._trains_without_ddp and len(self._ddps) > 0,
        )
        self._functions = Functions(lambda *told: self.stream().emit(*told))
        self._schedules = Schedules(lambda *told: self.stream().emit(*told))
        self._transfers = Transfers(lambda *told: self.stream().emit(*told))
        self.meetings = Meetings(lambda event, told: self.stream().emit(event, told))
        self._optimizer: Optimizer | None = None
        self._stepping: list[Optimizer] = []  # one may be carried out by others: ZeRO's
        self._has_gone_backward = False
        self.step = 0

    def tell(
        self, begin: Callable[[str], EventStream], steps: int, on_enough: Callable[[], None]
    ) -> None:
        """From now on tell this stream; what came before is forgotten."""
        self._begin, self._enough, self._on_enough = begin, steps, on_enough
        self._forget()

    def install(self) -> None:
        """Put the hooks on."""
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        self._replaced.put(DistributedDataParallel, "__init__", self._making_ddp)
        self._replaced.put(DistributedDataParallel, "forward", self._going_forward)
        if hasattr(DistributedDataParallel, "_post_forward"):
            self._replaced.put(DistributedDataParallel, "_post_forward", self._searching)
            self._replaced.put(DistributedDataParallel, "_pre_forward", self._entering)
        for name, around in self._feeds.wraps():
            self._replaced.put(_BaseDataLoaderIter, name, around)
        for fetcher in (_MapDatasetFetcher, _IterableDatasetFetcher):
            self._replaced.put(fetcher, "fetch", self._fetching)
        self._replaced.put(torch.Tensor, "backward", self._going_backward)
        self._functions.install()
        self._schedules.install()
        self._transfers.install()

    def close(self) -> None:
        """Take all of them off."""
        for handle in self._handles:
            handle.remove()
        self._functions.close()
        self._transfers.close()
        self._schedules.close()
        self._replaced.close()
        self._handles = []

    def stream(self, device: str = "") -> EventStream:
        """Return the stream, which begins when it is first asked for."""
        if self._stream is None:
            self._stream = self._begin(device or device_in_use())
            self.meetings.begin()
        return self._stream

    def called(self, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Hear of a collective that the script calls, before it begins."""
        self._functions.called(name, arguments, named)

    def raised(self, error: BaseException) -> None:
        """Tell what the script raised."""
        self.stream().emit("raise", self.step, error)

    def _making_ddp(self, original: Around, ddp: Any, *arguments: Any, **named: Any) -> None:
        module = arguments[0] if arguments else named.get("module")
        if isinstance(module, nn.Module):
            self._leave_what_is_no_ddp(module)
            self.stream(device_of(module.parameters())).emit("placed", module)
        entered = perf_counter()
        original(ddp, *arguments, **named)
        self._ddps[next(self._made_ddps)] = ddp
        self.meetings.told("DistributedDataParallel", entered, getattr(ddp, "process_group", None))

    @property
    def _trains_without_ddp(self) -> bool:
        live = self._live
        return live is not None and live.ddp is None and live.optimizer is not None

    def _leave_what_is_no_ddp(self, module: nn.Module) -> None:
        """Begin anew where a model was trained without DDP so far: a teacher, or to find a rate."""
        if self._trains_without_ddp:
            self._forget()
            self.stream(device_of(module.parameters()))
            self._feeds.again()

    def _forget(self) -> None:
        self._stream = self._live = self._optimizer = None
        self.step = 0

    def _going_forward(self, original: Around, ddp: Any, *arguments: Any, **named: Any) -> Any:
        """Tell of the first model that is trained: a teacher, or one that is evaluated, is not."""
        # A compiler that reads this finds a constant, and the original.
        if not torch.compiler.is_compiling() and ddp.training and torch.is_grad_enabled():
            self._leave_what_is_no_ddp(ddp)
            if self._live is None:
                device = device_of(ddp.parameters())
                beside = self._beside(ddp)
                self._live = Watched(ddp.module, ddp, self._loader, device, beside=beside)
                self.stream(device).emit("built", self._live)
            if ddp is self._live.model:
                self.stream().emit("inputs", self.step, (arguments, named))
        return original(ddp, *arguments, **named)

    def _beside(self, ddp: DistributedDataParallel) -> Sequence[DistributedDataParallel]:
        """Return the others that have been made so far for the same ranks."""
        others = (each for each in self._ddps.values() if each is not ddp)
        return tuple(each for each in others if group_of(each) == group_of(ddp))

    def _entering(self, original: Around, *arguments: Any, **named: Any) -> Any:
        """Time what DDP does before the forward pass."""
        if torch.compiler.is_compiling() or self._live is None:
            return original(*arguments, **named)
        entered = perf_counter()
        passed = original(*arguments, **named)
        self.stream().emit("entered", perf_counter() - entered)
        return passed

    def _searching(self, original: Around, ddp: Any, output: Any) -> Any:
        """Time what DDP does after the forward pass, if it searches for unused parameters then."""
        # As in the forward pass, a compiler finds a constant, and the original.
        if torch.compiler.is_compiling() or self._live is None or ddp is not self._live.model:
            return original(ddp, output)
        entered = perf_counter()
        passed = original(ddp, output)
        if ddp.find_unused_parameters and not ddp.static_graph and torch.is_grad_enabled():
            took_s = perf_counter() - entered
            count = sum(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(passed))
            self.stream().emit("searched", self.step, took_s, count)
        return passed

    def _fetching(self, original: Around, fetcher: Any, indices: Any) -> Any:
        """Tell of a batch's samples, in this process or in a worker that was forked from it."""
        stream = self._stream
        # A thread beside the script's has generators of its own, or moves those of the script.
        if stream is None or current_thread() is not main_thread():
            return original(fetcher, indices)
        stream.emit("sampling")
        samples = original(fetcher, indices)
        stream.emit("sampled", indices)
        return samples

    @property
    def _loader(self) -> Any:
        return self._feeds.loader

    def _going_backward(self, original: Around, tensor: Any, *arguments: Any, **named: Any) -> None:
        self._has_gone_backward = True
        if tensor.numel() == 1 and has_values(tensor):
            self.stream().emit("loss", self.step, tensor)
        entered = perf_counter()
        original(tensor, *arguments, **named)
        ddp = self._live.ddp if self._live else None
        self.meetings.told("backward", entered, ddp.process_group if ddp else None)

    def _before_step(
        self, optimizer: Optimizer, arguments: Any, named: Any
    ) -> tuple[Any, Any] | None:
        if optimizer in self._stepping:  # its last step raised
            del self._stepping[self._stepping.index(optimizer) :]
        self._stepping.append(optimizer)
        # It is a part of another one, ZeRO's or a wrapper's, or no step at all.
        if len(self._stepping) > 1 or only_makes_state():
            return None
        if self._optimizer is None and self._trains(optimizer):
            self._optimizer = optimizer
            if self._live is None:
                self._tell_of_parameters(optimizer)
                return None  # of this step's gradients the observers could not know
            self._live.optimizer = optimizer
        if optimizer is not self._optimizer:
            return None
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if closure is None:
            self.stream().emit("gradients", self.step)
            return None
        told = telling_once(closure, partial(self.stream().emit, "gradients", self.step))
        if len(arguments) > 1:
            return (arguments[0], told, *arguments[2:]), named
        return arguments, {**named, "closure": told}

    def _after_step(self, optimizer: Optimizer, _arguments: Any, _named: Any) -> None:
        if optimizer in self._stepping:
            del self._stepping[self._stepping.index(optimizer) :]
        if only_makes_state():
            return
        self._feeds.stepped()
        if optimizer is self._optimizer and not self._stepping:
            self.stream().emit("step", self.step)
            self.step += 1
            if self.step == self._enough:
                self._on_enough()
        elif self._optimizer is not None and not self._stepping:
            self.stream().emit("other_step")

    def _trains(self, optimizer: Optimizer) -> bool:
        """Return whether it is the optimizer of the model that is known, or that may be known yet.

        One with tensors of its own may have copies of the model's, and a first step before any
        backward may only make the optimizer's state: it is believed when it steps again.
        """
        known = self._live.module if self._live else None
        if optimizer in self._strangers or (known is None and not self._ddps):
            return True
        # A forward that went around DDP is one that nobody saw.
        around = known is None and self._has_gone_backward
        if around and any(shares(optimizer, each) for each in self._ddps.values()):
            return True
        if known is not None and shares(optimizer, known):
            return True
        self._strangers.add(optimizer)
        return False

    def _tell_of_parameters(self, optimizer: Optimizer) -> None:
        """Tell of a model that no forward of DDP has told of: it may be called by another way."""
        device = device_of(parameters_of(optimizer))
        ddp = next((each for each in self._ddps.values() if shares(optimizer, each)), None)
        model = ddp or ParametersOf(optimizer)
        module = ddp.module if ddp else model
        beside = self._beside(ddp) if ddp is not None else ()
        self._live = Watched(module, model, self._loader, device, optimizer, beside)
        self.stream(device).emit("built", self._live)
