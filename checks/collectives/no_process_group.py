"""The ranks meet, but cannot join one process group.

Why it matters
    Every collective needs the group. Where joining fails, a training script fails or hangs
    in its first line, often with a message that names only the rank that gave up first.

What to do
    With gloo: set GLOO_SOCKET_IFNAME to the interface that routes to the other hosts.
    With NCCL: run again with NCCL_DEBUG=INFO and look for the first WARN line; check that
    each rank has a GPU of its own and that all hosts have the same NCCL.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.measures.testimony import is_victims


class Facts(msgspec.Struct, frozen=True):
    """How joining went: ``error`` is None when it worked; ``duration_s`` is wall time."""

    backend: str
    duration_s: float
    error: str | None
    world_size: int = 0

    @property
    def is_victim(self) -> bool:
        """Return whether the error only says that another rank did not come."""
        return is_victims(self.error or "")


def probe(ctx: Context) -> Facts:
    """Return how the engine's joining of the group went on this rank."""
    if ctx.joining is None:
        raise Skip("this run joins no process group")
    joining = ctx.joining
    return Facts(joining.backend, joining.duration_s, joining.error, ctx.world_size)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks that did not get in, leaving out those they kept out."""
    failed = {rank: fact for rank, fact in facts.items() if fact.error}
    if not failed:
        return []
    world = max(max(facts) + 1, *(fact.world_size for fact in facts.values()))
    silent = tuple(sorted(set(range(world)) - set(facts)))
    culprits = {rank: fact for rank, fact in failed.items() if not fact.is_victim}
    first = min(culprits or failed)
    backend = facts[first].backend
    return [
        Finding(
            title=f"{len(failed)} of {world} ranks could not join the {backend} group",
            message=f"rank {first}: {failed[first].error}",
            fix=_fix(backend),
            ranks=tuple(sorted(culprits)) or silent or tuple(sorted(failed)),
            # Those that waited for a rank that told nothing have done nothing wrong: that one is
            # stalled, or lost.
            severity=Severity.INFO if silent and not culprits else Severity.ERROR,
            evidence={"errors": {str(rank): fact.error for rank, fact in failed.items()}},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how long joining took on the slowest rank."""
    joined = [fact for fact in facts.values() if not fact.error]
    slowest = max(facts.values(), key=lambda fact: fact.duration_s)
    if len(joined) < len(facts):
        return f"{len(joined)} of {len(facts)} got into one {slowest.backend} group"
    return f"{len(facts)} ranks joined one {slowest.backend} group in {slowest.duration_s:.1f} s"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return the backend that worked, and the device that goes with it."""
    if any(fact.error for fact in facts.values()):
        return {}
    backend = next(iter(facts.values())).backend
    device = "cuda" if backend == "nccl" else "cpu"
    reason = f"{len(facts)} ranks joined one {backend} group in this run"
    return {
        "backend": Recommendation(backend, reason),
        "device": Recommendation(device, f"the {backend} group works on {device} tensors"),
    }


def _fix(backend: str) -> str:
    if backend == "gloo":
        return "set GLOO_SOCKET_IFNAME to the interface that routes to the other hosts"
    return "run again with NCCL_DEBUG=INFO and act on the first WARN line"
