"""Weights of a distributed checkpoint were read, and went into no model.

Why it matters
    torch.distributed.checkpoint.load fills the tensors that it is given. Where those are copies, as
    get_model_state_dict makes them with full_state_dict or cpu_offload, and FSDP's own state_dict
    does, nothing is loaded until the model is given them: it trains on from what it was made with.

What to do
    After dcp.load, call set_model_state_dict(model, state["model"]), or load_state_dict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.words import counted

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained


class Facts(msgspec.Struct, frozen=True):
    """How many weights were read that neither a model nor the script had when training went on."""

    lost: int
    location: Location | None = None


class Observer:
    """Looks for what was read, before the next step."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.restored import Restored

        self._ctx = ctx
        self._restored = Restored()
        self.parts = (self._restored,)
        self._facts = Facts(0)

    def on_built(self, _live: Trained) -> None:
        """Look before the training begins."""
        self.on_gradients(0)

    def on_gradients(self, _step: int) -> None:
        """Look before each step."""
        lost = self._restored.lost()
        if lost and not self._facts.lost:
            self._facts = Facts(lost, self._restored.location)

    def facts(self) -> Facts:
        """Return what was lost; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that trained on without what they had read."""
    lost = {rank: own for rank, own in sorted(facts.items()) if own.lost}
    if not lost:
        return []
    first = lost[min(lost)]
    return [
        Finding(
            title="weights were read of a checkpoint, and went into no model",
            message=f"{counted(first.lost, 'weight')} were read into copies that nobody kept: no model "
            "has them, nor was given them, before the next step",
            fix='call set_model_state_dict(model, state["model"]) after dcp.load',
            ranks=tuple(lost),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            location=first.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "nothing that was read was lost"
