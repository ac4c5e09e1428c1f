"""DDP searches for unused parameters in each step, and there are none.

Why it matters
    With find_unused_parameters=True DDP walks through the whole autograd graph after each forward
    pass, and tells the other ranks of what it found. It is needed where a step uses a part of the
    parameters only. The flag is often copied with a script, and costs a little in each step.

What to do
    Leave it out. DDP raises in the second step if a parameter is unused after all, and ddpcheck
    names it in the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.reached import Reached

# What is used now and then shows in so many steps, or seldom.
LEAST_STEPS = 5


class Facts(msgspec.Struct, frozen=True):
    """Whether each of the parameters got a gradient in each of the steps, and what searching took.

    ``is_sure`` is False where it is not known: of several outputs, those that the loss does not use
    get gradients of zeros. The search is in seconds of the host's, the median.
    """

    parameters: int
    steps: int
    all_used: bool
    is_sure: bool
    search_s: float
    location: Location | None = None


class Observer:
    """Times the search, and notes which parameters autograd reaches."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._live: Trained | None = None
        self._reached: Reached | None = None
        self._took_s: list[float] = []
        self._steps = 0
        self._all_used = self._is_sure = True
        self._location: Location | None = None

    def on_placed(self, _module: object) -> None:
        """Note where DDP is made."""
        from ddpcheck.watch.callsite import users_line

        self._location = users_line()

    def on_built(self, live: Trained) -> None:
        """Begin to look, if DDP does."""
        from ddpcheck.watch.reached import Reached

        if live.ddp is not None and live.ddp.find_unused_parameters:
            self._live, self._reached = live, Reached(live.module)

    def on_searched(self, _step: int, took_s: float, outputs: int) -> None:
        """Note how long DDP searched, in the graph of so many outputs."""
        self._took_s.append(took_s)
        self._is_sure = self._is_sure and outputs == 1

    def on_loss(self, _step: int, _loss: object) -> None:
        """Look back at the backward pass before this one."""
        if self._reached is not None:
            self._reached.end_backward()

    def on_gradients(self, _step: int) -> None:
        """Note whether all were reached."""
        unreached = self._reached.end_step() if self._reached is not None else None
        if unreached is not None:
            self._steps += 1
            self._all_used = self._all_used and not unreached

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where DDP does not search."""
        self._ctx.require_watch()
        if self._live is None or self._reached is None:
            raise Skip("DDP was not told to look for unused parameters")
        self._reached.close()
        trained = sum(p.requires_grad for p in self._live.module.parameters())
        all_used = self._all_used and not self._reached.by_parts
        seen = (trained, self._steps, all_used, self._is_sure)
        return Facts(*seen, median(self._took_s or [0.0]), self._location)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where no rank needs the search: one alone says nothing of the others."""
    if not all(own.all_used and own.is_sure and own.steps >= LEAST_STEPS for own in facts.values()):
        return []
    slow = max(facts.values(), key=lambda own: own.search_s)
    return [
        Finding(
            title="find_unused_parameters=True is not needed",
            message=f"all {slow.parameters} parameters got a gradient in each of "
            f"{min(own.steps for own in facts.values())} steps on every rank; the search took "
            f"{1e3 * slow.search_s:.2f} ms a forward pass",
            fix="leave find_unused_parameters=True out",
            ranks=tuple(sorted(facts)),
            severity=Severity.INFO,
            confidence=Confidence.MEDIUM,
            location=slow.location,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what the search takes."""
    slow = max(own.search_s for own in facts.values())
    return f"DDP searches for {1e3 * slow:.2f} ms a forward pass"
