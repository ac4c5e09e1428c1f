"""The launcher was not told to start failed ranks again.

Why it matters
    torchrun ends the job when a rank fails: --max-restarts is 0 unless it is given. What passes by
    itself (a node that is exchanged, a file system that is away for a minute) ends it as well.

What to do
    Give torchrun --max-restarts=3, and let the script go on from its last checkpoint. What fails
    each time in the same way is not worth it: mend it first.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity

VARIABLE = "TORCHELASTIC_MAX_RESTARTS"
# What a program raises for a mistake in it comes again with each start.
OF_PROGRAMS = frozenset(
    each.__name__
    for each in (
        *(AssertionError, AttributeError, ImportError, IndexError, KeyError, ModuleNotFoundError),
        *(NameError, NotImplementedError, TypeError, UnboundLocalError, ZeroDivisionError),
    )
)


class Facts(msgspec.Struct, frozen=True):
    """How often the launcher starts failed ranks again, None without one, and what was raised."""

    max_restarts: int | None
    steps: int = 0
    error: str = ""


class Observer:
    """Hears what the script raised, and when."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        told = ctx.environ.get(VARIABLE, "")
        self._facts = Facts(int(told) if told.isdigit() else None)

    def on_raise(self, step: int, error: BaseException) -> None:
        """Note it."""
        told = {"steps": step, "error": type(error).__name__}
        self._facts = msgspec.structs.replace(self._facts, **told)

    def facts(self) -> Facts:
        """Return what was seen; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where a training that had begun was ended by an error, for good.

    What fails before the first step does so each time, and so does a mistake in the program.
    """
    failed = [
        rank
        for rank, own in sorted(facts.items())
        if own.error not in {"", *OF_PROGRAMS} and own.steps and own.max_restarts == 0
    ]
    if not failed:
        return []
    return [
        Finding(
            title="failed ranks are not started again",
            message=f"{facts[failed[0]].error} ended the training after {facts[failed[0]].steps} "
            f"steps, and {VARIABLE} is 0, as it is unless torchrun is told otherwise",
            fix="where such errors pass by themselves, give torchrun --max-restarts=3",
            ranks=tuple(failed),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how often failed ranks are started again."""
    told = next(iter(facts.values())).max_restarts
    return "no torchrun" if told is None else f"failed ranks are started again {told} times"
