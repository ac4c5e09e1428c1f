"""Watch what goes into BatchNorm layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import msgspec
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle

from ddpcheck.measures.batchnorm import Layer

# How many channels are compared; more would only make the report longer.
KEPT_CHANNELS = 16
# Of a layer's batches the first few are looked at, and every so many of the rest: small kernels add up.
FIRST_LOOKS, EVERY = 4, 8


class Look:
    """A hook that copies of its layer do not have: an average of the model, say."""

    def __init__(self, look: Callable[..., None]) -> None:
        self._look = look

    def __call__(self, *given: Any) -> None:
        """Look at what goes into the layer; a compiler has nothing to trace here."""
        if not torch.compiler.is_compiling():
            self._look(*given)

    def __deepcopy__(self, _memo: object) -> Callable[..., None]:
        """Return a hook that does nothing."""
        return _nothing

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, str]]:
        """Return how to make, from a file, such a hook that needs nothing of ddpcheck."""
        return getattr, (nullcontext(), "__exit__")


def _nothing(*_given: Any) -> None:
    """Be the hook of a copy."""


class BatchNormWatch:
    """Keeps the statistics of the latest training batch of each layer that was looked at.

    They stay on the device until ``close``, which alone waits for it.
    """

    def __init__(self, model: nn.Module) -> None:
        self._layers: dict[str, Layer] = {}
        self._calls: Counter[str] = Counter()
        self._seen: dict[str, tuple[int, int, torch.Tensor, torch.Tensor]] = {}
        self._hooks: list[RemovableHandle] = []
        for name, module in model.named_modules():
            if isinstance(module, _BatchNorm):
                self._layers[name] = _described(name, module)
                look = Look(partial(self._look, name))
                self._hooks.append(module.register_forward_pre_hook(look, with_kwargs=True))

    def close(self) -> tuple[Layer, ...]:
        """Take the hooks off and return the layers in model order."""
        for hook in self._hooks:
            hook.remove()
        return tuple(self._with_numbers(name) for name in self._layers)

    def _with_numbers(self, name: str) -> Layer:
        if name not in self._seen:
            return self._layers[name]
        samples, values, variances, means = self._seen[name]
        return msgspec.structs.replace(
            self._layers[name],
            samples=samples,
            values=values,
            means=_numbers(means),
            variances=_numbers(variances),
        )

    def _look(self, name: str, module: nn.Module, args: Sequence[Any], kwargs: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if not module.training or given is None or not len(given):
            return
        call = self._calls[name]
        self._calls[name] += 1
        if call < FIRST_LOOKS or call % EVERY == 0:
            channels = given.detach().transpose(0, 1)[:KEPT_CHANNELS].flatten(1).float()
            variances, means = torch.var_mean(channels, dim=1, correction=0)
            self._seen[name] = len(given), channels.shape[1], variances, means


def _described(name: str, module: nn.Module) -> Layer:
    kind = type(module)
    return Layer(
        name=name,
        kind=f"{kind.__module__}.{kind.__qualname__}",
        synchronized=isinstance(module, nn.SyncBatchNorm),
        custom=not kind.__module__.startswith("torch."),
    )


def _numbers(values: torch.Tensor) -> tuple[float, ...]:
    return tuple(torch.nan_to_num(values).tolist())
