"""A rank's process ended in the middle of the run.

Why it matters
    The others wait for it in their next collective, for as long as the process group's timeout,
    and then blame each other: the first to complain is a victim, not the cause.

What to do
    SIGKILL: look for the kernel's out-of-memory killer (dmesg) or the scheduler's memory limit.
    SIGSEGV, SIGBUS: the stack in the report names the library; SIGBUS also means a full /dev/shm.
    An exit code: something in that process called exit; look for its last line of output.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.finding import Finding
from ddpcheck.measures.inquest import Kind, inquest
from ddpcheck.measures.stack_lines import users_place
from ddpcheck.measures.testimony import Testimony

Facts = Testimony


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for the ranks that were lost, leaving out those that went after them."""
    rulings = inquest(facts)
    lost = {rank: ruling for rank, ruling in rulings.items() if ruling.kind is Kind.LOST}
    if not lost:
        return []
    told = "; ".join(f"rank {rank} {ruling.reason}" for rank, ruling in lost.items())
    first = min(lost, key=lambda rank: (facts[rank].order, rank))
    return [
        Finding(
            title=f"{len(lost)} of {len(facts)} ranks were lost in the run",
            message=told,
            fix=_fix(facts[first].ended_by),
            ranks=tuple(sorted(lost)),
            location=users_place(facts[first].stack),
            evidence={
                "check": facts[first].check,
                "ended_by": {str(rank): facts[rank].ended_by for rank in lost},
                "stack": facts[first].stack,
            },
        )
    ]


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return how many ranks came to the end, if all did."""
    gone = any(ruling.kind is not Kind.THROUGH for ruling in inquest(facts).values())
    return "" if gone else f"{len(facts)} ranks came to the end"


def _fix(ended_by: str) -> str:
    if ended_by == "SIGKILL":
        return "look for the out-of-memory killer in dmesg, and for the scheduler's memory limit"
    if ended_by.startswith("SIG"):
        return "look at the stack, and at that rank's last lines of output"
    return "look at that rank's last lines of output, above its launcher's own"
