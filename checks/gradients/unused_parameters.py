"""A parameter that requires a gradient gets none.

Why it matters
    DDP waits for a gradient of every parameter. Where one never comes, the bucket it is in
    stays unsynchronized in that step without an error, and the next step raises, on every
    rank or on one alone.

What to do
    Remove the parameter, use its output in the loss, or set requires_grad to False before
    wrapping. If it is unused only now and then, pass find_unused_parameters=True, and let
    all ranks draw the same branch where that is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Recommendation

if TYPE_CHECKING:
    from ddpcheck.target.live import Trained
    from ddpcheck.watch.reached import Reached

# How many names a message shows.
SHOWN_NAMES = 4


class Facts(msgspec.Struct, frozen=True):
    """Parameters that autograd did not reach in some step; ``copes``: DDP was told to look.

    ``by_parts``: some backward pass reached a part of the parameters alone, as of a model whose two
    halves take turns. ``in_ddp`` is whether there is a DDP that must look.
    """

    unused: tuple[str, ...]
    parameters: int
    copes: bool
    steps: int
    by_parts: bool = False
    in_ddp: bool = True


class Observer:
    """Notes which parameters autograd reaches."""

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._live: Trained | None = None
        self._reached: Reached | None = None
        self._unused: dict[str, None] = {}
        self._steps = 0

    def on_built(self, live: Trained) -> None:
        """Begin to look."""
        from ddpcheck.watch.reached import Reached

        self._live, self._reached = live, Reached(live.module)

    def on_loss(self, _step: int, _loss: object) -> None:
        """Look back at the backward pass before this one."""
        if self._reached is not None:
            self._reached.end_backward()

    def on_gradients(self, step: int) -> None:
        """Collect the names of those that were not reached in this step."""
        unreached = self._reached.end_step() if self._reached is not None else None
        if unreached is not None:
            self._steps = step + 1
            self._unused.update(dict.fromkeys(unreached))

    def facts(self) -> Facts:
        """Return what was seen; raises Skip when no backward pass came to its end."""
        if self._reached is not None:
            self._reached.close()
        if self._live is None or self._reached is None or not self._steps:
            raise Skip("no backward pass came to its end")
        ddp = self._live.ddp
        copes = ddp is None or bool(ddp.find_unused_parameters or ddp.static_graph)
        trainable = sum(p.requires_grad for p in self._live.module.parameters())
        told = (tuple(self._unused), trainable, copes, self._steps, self._reached.by_parts)
        return Facts(*told, in_ddp=ddp is not None)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding when DDP was not told of unused parameters."""
    bad = {rank: fact.unused for rank, fact in facts.items() if fact.unused and not fact.copes}
    if not bad:
        return []
    names = list(dict.fromkeys(name for unused in bad.values() for name in unused))
    everywhere = len({frozenset(each) for each in bad.values()}) == 1 and len(bad) == len(facts)
    return [
        Finding(
            title="parameters get no gradient" + ("" if everywhere else " on some ranks"),
            message=f"{_shown(names)} of {facts[min(facts)].parameters} trainable parameters got no "
            "gradient in some step; DDP leaves their bucket unsynchronized in that step",
            fix="remove them, use their output in the loss, freeze them before wrapping, or pass "
            "find_unused_parameters=True",
            ranks=tuple(sorted(bad)),
            evidence={"parameters": names},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many parameters were seen with a gradient."""
    unused = {name for fact in facts.values() for name in fact.unused}
    count = next(iter(facts.values())).parameters
    return f"all {count} parameters get a gradient" if not unused else ""


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return whether DDP must look for unused parameters, where that is known."""
    if not all(fact.in_ddp for fact in facts.values()):
        return {}
    unused = sorted({name for fact in facts.values() for name in fact.unused})
    steps = min(fact.steps for fact in facts.values())
    reason = (
        f"{_shown(unused)} got no gradient in this run"
        if unused
        else f"every parameter got a gradient in {steps} steps on every rank"
    )
    in_turns = not unused and any(fact.by_parts for fact in facts.values())
    if in_turns:
        reason = "some backward passes reached a part of the parameters alone"
    return {"find_unused_parameters": Recommendation(bool(unused) or in_turns, reason)}


def _shown(names: list[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
