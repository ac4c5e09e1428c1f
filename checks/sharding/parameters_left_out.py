"""Parameters of a sharded model are in no module that FSDP shards, and drift apart.

Why it matters
    fully_shard averages the gradients of the modules that it was called on. When the layers are
    sharded and the model around them is not, its embeddings, norms and head stay plain parameters,
    with gradients of each rank's own batches: they drift apart, nothing raises, and a checkpoint
    has those of rank 0.

What to do
    Call fully_shard on the whole model, too, after its layers. What is meant to stay outside has to
    be averaged by the script, after backward and before the optimizer's step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import Difference, Sketch, first_difference

if TYPE_CHECKING:
    import torch

    from ddpcheck.target.live import Trained

Sketches = dict[str, Sketch]


class Facts(msgspec.Struct, frozen=True):
    """Sketches of the optimizer's plain parameters, before the first step and after the last one.

    ``names`` has what the script calls them. ``gradient`` has those of the first step; ``group`` are the ranks that FSDP shards among. Where a
    backward pass is ``joint``, ranks may hold parts of their own by design, as experts.
    """

    before: Sketches
    gradient: Sketches
    after: Sketches
    steps: int
    group: tuple[int, ...] = ()
    joint: bool = False
    location: Location | None = None
    names: dict[str, str] = {}


class Observer:
    """Sketches the plain parameters that the optimizer of a sharded model has."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.averaging import Averaging

        self._ctx = ctx
        self._averaging = Averaging()
        self.parts = (self._averaging,)
        self._live: Trained | None = None
        self._before: Sketches = {}
        self._gradient: Sketches = {}
        self._steps = 0

    def on_built(self, live: Trained) -> None:
        """Sketch what the first step starts from, and its gradients."""
        if live.ddp is None and self._averaging.ranks:
            self._live = live
            self._before = self._sketch(lambda parameter: parameter)
            self._gradient = self._sketch(lambda parameter: parameter.grad)

    def on_step(self, step: int) -> None:
        """Count the step."""
        self._steps = step + 1

    def facts(self) -> Facts:
        """Return the sketches; raises Skip where all parameters are sharded, or none."""
        self._ctx.require_watch()
        if not self._before:
            raise Skip("no model was trained of which FSDP shards some modules, and some not")
        after = self._sketch(lambda parameter: parameter)
        seen = self._averaging
        told = (self._before, self._gradient, after, self._steps)
        return Facts(*told, seen.ranks, seen.work_together, seen.location, self._names())

    def _names(self) -> dict[str, str]:
        from ddpcheck.watch.meshes import names_of

        return names_of(self._live.module) if self._live is not None else {}

    def _sketch(self, pick: Callable[[torch.Tensor], torch.Tensor | None]) -> Sketches:
        from ddpcheck.watch.replicas import sketched_plain

        return sketched_plain(self._live.module, pick) if self._live is not None else {}


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each group whose plain parameters were alike, and are not any more."""
    found: list[Finding] = []
    for ranks in grouped({rank: own.group for rank, own in facts.items()}).values():
        own = {rank: facts[rank] for rank in ranks}
        drift = _drift(own)
        if drift is not None:
            found.append(_finding(own, drift))
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many parameters were compared."""
    return (
        f"{len(next(iter(facts.values())).before)} parameters outside of what FSDP shards compared"
    )


def _drift(facts: Mapping[int, Facts]) -> Difference | None:
    alike = first_difference({rank: own.before for rank, own in facts.items()}) is None
    if not alike or any(own.joint for own in facts.values()):
        return None
    if len({own.steps for own in facts.values()}) > 1:
        return None  # one that stopped in another step is elsewhere: gradients/step-raised
    # The script may average them by itself, which makes them alike.
    if first_difference({rank: own.gradient for rank, own in facts.items()}) is None:
        return None
    return first_difference({rank: own.after for rank, own in facts.items()})


def _finding(facts: Mapping[int, Facts], drift: Difference) -> Finding:
    first = facts[min(facts)]
    name = first.names.get(drift.name, drift.name)
    return Finding(
        title=f"{drift.differing} parameters are outside of what fully_shard was called on, and drift",
        message=f"{name} is the first of {drift.differing} parameters that were alike on all "
        f"ranks and differ after {first.steps} steps, by {drift.relative:.1e}: nobody averages their "
        "gradients",
        fix="call fully_shard on the whole model, too, after its layers; average the gradients of what it "
        "is told to ignore before each step",
        ranks=tuple(sorted(facts)),
        severity=Severity.ERROR,
        confidence=Confidence.HIGH,
        location=first.location,
        evidence={"parameter": name, "relative_difference": drift.relative},
    )
