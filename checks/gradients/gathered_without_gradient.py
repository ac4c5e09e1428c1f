"""Features go through all_gather, and no gradient comes back to the layers that made them.

Why it matters
    torch.distributed.all_gather and all_gather_into_tensor return tensors without a history. A
    loss that is made of them alone, a contrastive one say, cannot move the layers that its
    features come from: what else the loss has goes on falling, and these layers stay as they are.

What to do
    Put this rank's own tensor back in its place (gathered[rank] = features), or gather with
    torch.distributed.nn.functional.all_gather; that one adds up the gradients of all ranks, which
    DDP divides by the world size again. Gather what is for a metric from features.detach(). Not
    seen: a gathered part of an output whose other parts come to the loss by another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import spans

if TYPE_CHECKING:
    import torch

    from ddpcheck.target.live import Trained
    from ddpcheck.watch.ancestry import Ancestry

# Of each line, so many gathers of a step are followed, in so many steps: a script does there what it
# always does.
KEPT_COUNT = 8


class Gather(msgspec.Struct, frozen=True):
    """The ``number``th gather of a line in each step: in how many it was ``followed``, and ``cut``.

    That is, no gradient came back. ``shape`` went in, made with ``parameter`` among others.
    """

    location: Location | None
    number: int
    followed: int = 0
    cut: int = 0
    shape: tuple[int, ...] = ()
    parameter: str = ""


Key: TypeAlias = tuple[Location | None, int]


class Facts(msgspec.Struct, frozen=True):
    """A rank's gathers in the forward passes of training, by line and number."""

    gathers: tuple[Gather, ...]


class Observer:
    """Follows what goes into a gather between a forward pass and its backward pass."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._names: dict[int, str] = {}
        self._is_forward = False
        self._gathers: dict[Key, Gather] = {}
        self._followed: dict[Key, tuple[tuple[int, ...], Ancestry]] = {}

    def on_built(self, live: Trained) -> None:
        """Remember the model, and its parameters by name."""
        self._live = live
        self._names = {id(each): name for name, each in live.module.named_parameters()}

    def on_inputs(self, _step: int, _inputs: object) -> None:
        """Note that a forward pass of training has begun."""
        self._is_forward = True

    def on_loss(self, _step: int, _loss: object) -> None:
        """Note that what is gathered from here on is no part of the loss."""
        self._is_forward = False

    def on_gathered(self, tensor: torch.Tensor, location: Location | None) -> None:
        """Follow the tensor's history."""
        from ddpcheck.watch.ancestry import Ancestry

        if self._live is None or not self._is_forward or not self._live.module.training:
            return
        number = sum(line == location for line, _ in self._followed)
        known = self._gathers.setdefault((location, number), Gather(location, number))
        if number < KEPT_COUNT and known.followed < KEPT_COUNT:
            self._followed[location, number] = (tuple(tensor.shape), Ancestry(tensor))

    def on_gradients(self, _step: int) -> None:
        """Look where gradients have come to."""
        for key, (shape, ancestry) in self._followed.items():
            known = self._gathers[key]
            parameter = ancestry.parameter_without_gradient()
            cut = known.cut + (parameter is not None)
            name = self._names.get(parameter or 0, "") or known.parameter
            self._gathers[key] = Gather(*key, known.followed + 1, cut, shape, name)
        self._followed = {}

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script trains through DDP."""
        self._ctx.require_watch()
        if self._live is None or self._live.ddp is None:
            raise Skip("no model was trained through DistributedDataParallel")
        return Facts(tuple(each for each in self._gathers.values() if each.followed))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each line with a gather that cuts every gradient."""
    cut: dict[Location | None, dict[int, Gather]] = {}
    for rank, own in sorted(facts.items()):
        for each in own.gathers:
            if each.followed == each.cut:
                cut.setdefault(each.location, {}).setdefault(rank, each)
    return [_finding(location, gathers) for location, gathers in cut.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many gathers were followed."""
    count = sum(each.followed for each in facts[min(facts)].gathers)
    return f"gradients came back to {count} gathered tensors" if count else "nothing was gathered"


def _finding(location: Location | None, gathers: Mapping[int, Gather]) -> Finding:
    own = gathers[min(gathers)]
    made = f", made with {own.parameter}," if own.parameter else ""
    return Finding(
        title="no gradient comes back through an all_gather",
        message=f"a tensor of shape {list(own.shape)}{made} was gathered in the forward pass of "
        f"{own.followed} steps on rank {spans(gathers)}; no gradient came to it in any of them: "
        "all_gather cuts it",
        fix="put this rank's own tensor back (gathered[rank] = features), or use "
        "torch.distributed.nn.functional.all_gather; for a metric, gather features.detach()",
        ranks=tuple(sorted(gathers)),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        location=location,
        evidence={"parameter": own.parameter, "shape": list(own.shape)},
    )
