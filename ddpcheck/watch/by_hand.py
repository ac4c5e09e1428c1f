"""Gradients that a script averages by itself, without DDP: among which ranks, and how much of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch._C import _current_graph_task_id

from ddpcheck.finding import Location
from ddpcheck.measures.by_hand import Ranks, Summed, Unwrapped
from ddpcheck.measures.sketch import Sketch
from ddpcheck.target.live import Trained
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.meshes import constants_of, names_of
from ddpcheck.watch.parts import PartsOfOne

# Of the gradients' elements: a norm or a metric is far less, and the rest may be what was forgotten.
LEAST_RATIO = 0.1


class ByHand:
    """A part of an observer: hears of what is summed between a backward pass and the step.

    One by one, in buckets, or all in one tensor; and by hooks on parameters, in the backward pass.
    ``is_after`` is whether a backward pass of this step is over.
    """

    def __init__(self) -> None:
        self._summed: Summed | None = None
        self._module: nn.Module | None = None
        self._is_wrapped = False
        self._constants: list[str] = []
        self._of_one = PartsOfOne()
        self._by_hooks: set[Ranks] = set()
        self.is_after = False
        self._sent: Counter[Ranks] = Counter()
        self._sent_within: dict[Ranks, Counter[torch.Size]] = {}
        self._lines: dict[Ranks, Location | None] = {}

    @property
    def ranks(self) -> Ranks:
        """Return those that average their gradients, once that is known."""
        return self._summed.ranks if self._summed else ()

    @property
    def parts(self) -> list[Ranks]:
        """Return ranks that hold parts of one model."""
        # Who sums no more than gradients in a backward pass has no part of another's.
        return sorted(self._of_one.ranks - self._by_hooks)

    def sketch_gradients(self) -> dict[str, Sketch]:
        """Return sketches of the gradients as they are now, by the optimizer's names."""
        named = self._module.named_parameters() if self._module is not None else ()
        return sketch_all((name, each.grad) for name, each in named if each.grad is not None)

    def told(self) -> Unwrapped:
        """Return what is known of a training without DDP."""
        if self._module is None:
            return Unwrapped()
        return Unwrapped(self._summed, names_of(self._module), self._constants, self.parts)

    def on_joint(self, ranks: Ranks) -> None:
        """Note which ranks have parts of one backward pass."""
        self._of_one.on_joint(ranks)

    def on_passed(self, ranks: Ranks) -> None:
        """Note which rank sends tensors to which."""
        self._of_one.on_passed(ranks)

    def on_called(self, call: Any) -> None:
        """Note that a backward pass is over."""
        self.is_after = self.is_after or call.name == "backward"

    def on_reducing(self, tensor: torch.Tensor, ranks: Ranks) -> None:
        """Note how much is summed, and where."""
        if self._summed or self._is_wrapped or len(ranks) == 1:
            return
        if _current_graph_task_id() >= 0:
            self._sent_within.setdefault(ranks, Counter())[tensor.shape] += tensor.numel()
        elif self.is_after:
            self._sent[ranks] += tensor.numel()
        else:
            return
        if ranks not in self._lines:
            self._lines[ranks] = users_line()

    def on_built(self, live: Trained) -> None:
        """Look at the first step, in which the model comes to be known."""
        self._is_wrapped = live.ddp is not None
        if not self._is_wrapped:
            self._module = live.module
            self._constants = constants_of(live.module)
            self._of_one.on_built(live)
            self.on_gradients(0)

    def on_gradients(self, _step: int) -> None:
        """Look whether what was summed is most of the gradients that the optimizer gets."""
        if self._summed or self._module is None:
            return
        gradients = [each.grad for each in self._module.parameters() if each.grad is not None]
        shapes = {each.shape for each in gradients}
        whole = sum(each.numel() for each in gradients)
        sent = Counter(self._sent)
        for ranks, within in self._sent_within.items():
            if within.keys() <= shapes:
                self._by_hooks.add(ranks)
            sent[ranks] += sum(count for shape, count in within.items() if shape in shapes)
        ranks, most = max(sent.items(), key=lambda each: each[1], default=((), 0))
        if whole and most >= LEAST_RATIO * whole:
            self._summed = Summed(ranks, most >= whole, self._lines.get(ranks))

    def on_step(self, _step: int) -> None:
        """Begin another step."""
        self.is_after = False
        self._sent.clear()
        self._sent_within.clear()
