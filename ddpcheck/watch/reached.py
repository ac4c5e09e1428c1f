"""Which parameters autograd reaches, in a step and in each of its backward passes."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.utils.hooks import RemovableHandle


class Reached:
    """Hooks on the parameters of a module that are trained.

    The gradient itself does not tell: DDP may fill it in from other ranks. ``by_parts`` is whether
    some backward pass reached a part of them alone, as of a model whose two halves take turns.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._hooks: dict[str, RemovableHandle] = {}
        self._in_step: set[str] = set()
        self._in_backward: set[str] = set()
        self.by_parts = False
        self._hook_all()

    def end_backward(self) -> None:
        """Note that the backward pass before this moment, if any, is over."""
        # The names of a large model take milliseconds: they are asked for where it matters.
        if 0 < len(self._in_backward) < len(self._hooks) and not self.by_parts:
            self.by_parts = bool(set(self._hooked()) - self._in_backward)
        self._in_backward.clear()

    def end_step(self) -> list[str] | None:
        """Return which were not reached in this step; None where there was no backward pass."""
        self.end_backward()
        if not self._in_step:
            return None
        unreached = [name for name in self._hooked() if name not in self._in_step]
        self._in_step.clear()
        self._hook_all()  # some may have been frozen until now
        return unreached

    def close(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks.values():
            hook.remove()

    def _hooked(self) -> list[str]:
        named = self._module.named_parameters()
        return [name for name, p in named if p.requires_grad and name in self._hooks]

    def _hook_all(self) -> None:
        for name, parameter in self._module.named_parameters():
            if parameter.requires_grad and name not in self._hooks:
                self._hooks[name] = parameter.register_hook(partial(self._reach, name))

    def _reach(self, name: str, _gradient: object) -> None:
        self._in_step.add(name)
        self._in_backward.add(name)
