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
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Recommendation

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from ddpcheck.target.live import Trained

# How many names a message shows.
SHOWN_NAMES = 4


class Facts(msgspec.Struct, frozen=True):
    """Parameters that autograd did not reach in some step; ``copes``: DDP was told to look."""

    unused: tuple[str, ...]
    parameters: int
    copes: bool
    steps: int


class Observer:
    """Notes which parameters autograd reaches, by a hook on each.

    The gradient itself does not tell: DDP may fill it in from other ranks.
    """

    def __init__(self, ctx: Context) -> None:
        del ctx
        self._live: Trained | None = None
        self._hooks: dict[str, RemovableHandle] = {}
        self._reached: set[str] = set()
        self._unused: dict[str, None] = {}
        self._steps = 0

    def on_built(self, live: Trained) -> None:
        """Put a hook on every trainable parameter."""
        self._live = live
        self._hook_all()

    def on_gradients(self, step: int) -> None:
        """Collect the names of those that were not reached in this step."""
        if self._live is None or not self._reached:
            return  # there was no backward pass of this model
        self._steps = step + 1
        named = self._live.module.named_parameters()
        hooked = [n for n, p in named if p.requires_grad and n in self._hooks]
        self._unused.update(dict.fromkeys(n for n in hooked if n not in self._reached))
        self._reached.clear()
        self._hook_all()  # some may have been frozen until now

    def facts(self) -> Facts:
        """Return what was seen; raises Skip when no backward pass came to its end."""
        for hook in self._hooks.values():
            hook.remove()
        if self._live is None or not self._steps:
            raise Skip("no backward pass came to its end")
        ddp = self._live.ddp
        copes = ddp is None or bool(ddp.find_unused_parameters or ddp.static_graph)
        trainable = sum(p.requires_grad for p in self._live.module.parameters())
        return Facts(tuple(self._unused), trainable, copes, self._steps)

    def _hook_all(self) -> None:
        for name, parameter in self._live.module.named_parameters() if self._live else ():
            if parameter.requires_grad and name not in self._hooks:
                self._hooks[name] = parameter.register_hook(partial(self._reach, name))

    def _reach(self, name: str, _gradient: object) -> None:
        self._reached.add(name)


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
    """Return whether DDP must look for unused parameters."""
    unused = sorted({name for fact in facts.values() for name in fact.unused})
    steps = min(fact.steps for fact in facts.values())
    reason = (
        f"{_shown(unused)} got no gradient in this run"
        if unused
        else f"every parameter got a gradient in {steps} steps on every rank"
    )
    return {"find_unused_parameters": Recommendation(bool(unused), reason)}


def _shown(names: list[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
