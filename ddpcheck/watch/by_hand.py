"""Gradients that a script averages by itself, without DDP: among which ranks, and how much of them."""

from __future__ import annotations

from collections import Counter
from typing import Any
from weakref import ref

import torch
from torch import nn
from torch._C import _current_graph_task_id

from ddpcheck.finding import Location
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.unwrapped import Ranks, Summed, Unwrapped
from ddpcheck.target.live import Trained
from ddpcheck.target.sketch import sketch_all
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.meshes import constants_of, local_part, names_of
from ddpcheck.watch.optimizers import MADE_AT
from ddpcheck.watch.parts import PartsOfOne
from ddpcheck.watch.replicas import WHOLE
from ddpcheck.watch.states import version_of

# Of the gradients' elements: a norm or a metric is far less, and the rest may be what was forgotten.
LEAST_RATIO = 0.1
# In the first one the parameters are not known yet; to look at each gradient takes time.
STEPS_LOOKED_AT = range(1, 4)
KEPT_PLACES = 64


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
        self._names: dict[str, str] = {}
        self._of_one = PartsOfOne()
        self._by_hooks: set[Ranks] = set()
        self._spread: set[Ranks] = set()
        self._exchanged: set[Ranks] = set()
        self._placed: list[tuple[list[ref[nn.Parameter]], Location | None]] = []
        self._has_ended = False
        self._made: Location | None = None
        self._shares = False
        self.is_after = False
        self._sent: Counter[Ranks] = Counter()
        self._sent_within: dict[Ranks, Counter[torch.Size]] = {}
        self._lines: dict[Ranks, Location | None] = {}

    @property
    def ranks(self) -> Ranks:
        """Return those that average their gradients, once that is known."""
        return self._summed.ranks if self._summed else ()

    @property
    def line(self) -> Location | None:
        """Return where the script averages them."""
        return self._summed.location if self._summed else None

    @property
    def parts(self) -> list[Ranks]:
        """Return ranks that hold parts of one model."""
        # Who sums no more than gradients in a backward pass has no part of another's.
        return sorted(self._of_one.ranks - self._by_hooks)

    @property
    def links(self) -> list[Ranks]:
        """Return ranks that share a forward or a backward pass, or send each other tensors."""
        return sorted(self._of_one.ranks | self._spread | self._exchanged)

    @property
    def exchanges(self) -> bool:
        """Return whether ranks send each other what experts work on."""
        return bool(self._exchanged)

    @property
    def shares_passes(self) -> bool:
        """Return whether ranks hold parts of one model, or share its forward or backward passes."""
        return bool(self.links)

    def sketch_gradients(self) -> dict[str, Sketch]:
        """Return sketches of the gradients as they are now, by the optimizer's names.

        Of DTensors it is the part that is here.
        """
        named = self._module.named_parameters() if self._module is not None else ()
        return sketch_all((name, local_part(each.grad)) for name, each in named)

    def told(self, too_soon: SummedTooSoon | None = None) -> Unwrapped:
        """Return what is known of a training without DDP."""
        if self._module is None:
            return Unwrapped()
        names = too_soon.names(self.ranks) if too_soon is not None else []
        told = (self._summed, self._names, self._constants, self.parts, names)
        placed = [line for module, line in self._placed if self._has_parameters_of(module)]
        return Unwrapped(
            *told, sorted(self._spread), placed, self._has_ended, self._made, self._shares
        )

    def on_placed(self, module: nn.Module) -> None:
        """Note where DDP is made of a model: it may be thrown away."""
        if len(self._placed) < KEPT_PLACES:
            self._placed.append(([ref(each) for each in module.parameters()], users_line()))

    def on_fed(self, feed: Feed) -> None:
        """Note whether the batch that comes is this rank's share."""
        self._shares = feed.is_shared

    def on_ended(self) -> None:
        """Note that the script has come to its end."""
        self._has_ended = True

    def on_joint(self, ranks: Ranks) -> None:
        """Note which ranks have parts of one backward pass."""
        self._of_one.on_joint(ranks)

    def on_spread(self, ranks: Ranks) -> None:
        """Note which ranks share a forward pass."""
        self._spread.add(ranks)

    def on_exchanged(self, ranks: Ranks) -> None:
        """Note which ranks send each other what their experts work on."""
        self._exchanged.add(ranks)

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
            self._made = MADE_AT.get(live.optimizer)
            self._constants, self._names = constants_of(live.module), names_of(live.module)
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

    def _has_parameters_of(self, placed: list[ref[nn.Parameter]]) -> bool:
        own = self._module.parameters() if self._module is not None else ()
        trained = {id(each) for each in own}
        return any(id(each()) in trained for each in placed if each() is not None)

    def on_step(self, _step: int) -> None:
        """Begin another step."""
        self.is_after = False
        self._sent.clear()
        self._sent_within.clear()


class SummedTooSoon:
    """A part of an observer: notes gradients that were summed, and that a backward pass then changed.

    Each rank's own batch is in what the optimizer gets of them. Only what is summed in place, and
    changed in each step that is looked at, is noted: a copy may be for a metric, and one that is
    summed again is right.
    """

    def __init__(self) -> None:
        self._parameters: dict[str, nn.Parameter] = {}
        self._step = 0
        # By the place of a gradient in memory, since the last backward pass of this step.
        self._names: dict[int, str] = {}
        self._summed: dict[str, Ranks] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        self._changed: dict[str, Ranks] = {}
        self._steps: list[dict[str, Ranks]] = []

    def names(self, ranks: Ranks) -> list[str]:
        """Return those that were summed over these ranks and changed, by the optimizer's names."""
        first = self._steps[0] if self._steps else {}
        return [n for n in first if all(step.get(n) == ranks for step in self._steps)]

    def on_built(self, live: Trained) -> None:
        """Remember the parameters that are whole, of a training without DDP."""
        named = live.module.named_parameters() if live.ddp is None else ()
        self._parameters = {name: each for name, each in named if type(each) in WHOLE}

    def on_reducing(self, tensor: torch.Tensor, ranks: Ranks) -> None:
        """Note that a gradient is summed in place, in a backward pass by a hook, too."""
        name = self._names.get(tensor.data_ptr()) if self._names and _is_dense(tensor) else None
        if name is not None and tensor.numel() == self._parameters[name].numel():
            self._summed[name] = ranks
            self._changed.pop(name, None)
            self._versions.pop(name, None)

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note how those that were summed are, as a backward pass begins."""
        now = self._gradients() if self._summed else {}
        # What was taken away since then was for something else than this step.
        self._summed = {name: ranks for name, ranks in self._summed.items() if name in now}
        self._versions = {name: _version(now[name]) for name in self._summed}

    def on_called(self, call: Any) -> None:
        """Compare them as it ends."""
        if call.name != "backward" or self._step not in STEPS_LOOKED_AT:
            return
        now = self._gradients()
        for name, before in self._versions.items():
            if name in now and _version(now[name]) != before:
                self._changed[name] = self._summed[name]
        self._versions = {}
        self._names = {each.data_ptr(): name for name, each in now.items()}

    def on_step(self, step: int) -> None:
        """Keep what the optimizer got, and begin another step."""
        if step in STEPS_LOOKED_AT:
            self._steps.append(self._changed)
        self._step = step + 1
        self._names, self._summed, self._versions, self._changed = {}, {}, {}, {}

    def _gradients(self) -> dict[str, torch.Tensor]:
        named = ((name, each.grad) for name, each in self._parameters.items())
        return {
            n: g for n, g in named if g is not None and type(g) is torch.Tensor and _is_dense(g)
        }


def _is_dense(gradient: torch.Tensor) -> bool:
    return gradient.layout is torch.strided and gradient.numel() > 0


def _version(gradient: torch.Tensor) -> tuple[int, int]:
    """Return what is another one once a backward pass has added to it, in place or not."""
    return gradient.data_ptr(), version_of(gradient)
