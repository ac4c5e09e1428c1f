"""The ranks have fewer processor cores than they start threads, or share a single one.

Why it matters
    Threads that outnumber the cores wait for each other at every operation: a step may take
    ten times as long, and the slowest rank sets the pace of all. A GPU is fed by its rank's
    process: where that has no core of its own, the GPU idles.
What to do
    Set OMP_NUM_THREADS to the cores of a host divided by its ranks; give the job more cores
    (sbatch --cpus-per-task, docker run --cpus, Kubernetes' limits.cpu); and bind each rank to
    cores of its own (srun --cpu-bind=cores, mpirun --bind-to none or --map-by slot:PE=n).
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.cgroups import cpu_quota
from ddpcheck.machine.cores import core_count, in_spans, own_cores, spans
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import grouped, host_names, joined, named
from ddpcheck.measures.words import listed

# Twice as many threads as cores is common with hyper-threading, and not all are busy at once.
CROWDED_RATIO = 2.0


class Facts(msgspec.Struct, frozen=True):
    """The cores that a rank may use, as "0-3,8", of how many, and the quota of time in cores.

    ``threads`` is what torch starts for one operation, ``asked`` the value of OMP_NUM_THREADS.
    ``machine`` is common to the ranks of one kernel: containers share its cores, whatever they are
    called. ``quota_place`` is common to those of the control group that has the quota.
    """

    host: str
    machine: str
    on_gpu: bool
    cores: str
    core_count: int
    quota: float | None
    quota_place: str
    threads: int
    asked: str


class _Share(msgspec.Struct, frozen=True):
    """Ranks that share cores, or time on them, and how many cores that comes to."""

    ranks: dict[int, Facts]
    cores: float

    @property
    def own(self) -> list[Facts]:
        return list(self.ranks.values())

    @property
    def each(self) -> float:
        return self.cores / len(self.ranks)


def probe(ctx: Context) -> Facts:
    """Return the cores and threads of this rank."""
    import torch

    quota = cpu_quota()
    return Facts(
        host=ctx.host,
        machine=shared_place(ctx.host),
        on_gpu=ctx.on_gpu,
        cores=spans(own_cores()),
        core_count=core_count(),
        quota=quota.cores if quota else None,
        quota_place=shared_place(ctx.host, quota.group) if quota else "",
        threads=torch.get_num_threads(),
        asked=ctx.environ.get("OMP_NUM_THREADS", ""),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts whose ranks are on one core, starve GPUs, or start too many threads."""
    kinds: dict[str, list[_Share]] = {}
    for share in _shares(facts):
        for kind in _kinds(share):
            kinds.setdefault(kind, []).append(share)
    return [_finding(kind, shares) for kind, shares in kinds.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the fewest cores a rank has for itself."""
    return f"{min(share.each for share in _shares(facts)):.3g} cores a rank at least"


def _shares(facts: Mapping[int, Facts]) -> Iterator[_Share]:
    for ranks in grouped(facts, lambda own: own.machine):
        yield _Share(ranks, float(len(_union(ranks.values()))))
    limited = {rank: own for rank, own in facts.items() if own.quota is not None}
    for ranks in grouped(limited, lambda own: own.quota_place):
        quotas = [own.quota for own in ranks.values() if own.quota is not None]
        yield _Share(ranks, min(float(len(_union(ranks.values()))), *quotas))


def _kinds(share: _Share) -> Iterator[str]:
    own, threads = share.own, sum(each.threads for each in share.own)
    if len(own) > 1 and len(_union(own)) == 1 < own[0].core_count:
        yield "the ranks are bound to one core"
    elif own[0].on_gpu and share.each < 1:
        yield "fewer cores than GPUs at work"
    elif threads > CROWDED_RATIO * share.cores and threads > len(own):
        yield _crowding(own)


def _crowding(own: list[Facts]) -> str:
    asked = any(each.asked for each in own)
    return "OMP_NUM_THREADS is too high" if asked else "each rank starts a thread a core"


def _union(own: Iterable[Facts]) -> set[int]:
    return {core for text in {each.cores for each in own} for core in in_spans(text)}


def _finding(kind: str, shares: list[_Share]) -> Finding:
    everybody = joined(share.ranks for share in shares)
    worst = min(shares, key=lambda share: share.each)
    own, union = worst.own, _union(worst.own)
    quota = f", time for {worst.cores:.3g} of them" if worst.cores < len(union) else ""
    chosen = kind != "each rank starts a thread a core"
    return Finding(
        title=kind,
        message=f"{listed(host_names(everybody))}: {len(own)} rank(s) of {named(worst.ranks)} with "
        f"{own[0].threads} thread(s) each may use core {spans(union)} of {own[0].core_count}{quota}"
        + (f"; OMP_NUM_THREADS={own[0].asked}" if own[0].asked else ""),
        fix=f"export OMP_NUM_THREADS={max(1, int(worst.each))}, or give the ranks more cores "
        "(sbatch --cpus-per-task, docker run --cpus, Kubernetes' limits.cpu, srun "
        "--cpu-bind=cores, mpirun --bind-to none)",
        ranks=tuple(everybody),
        severity=Severity.WARNING if chosen else Severity.INFO,
        confidence=Confidence.MEDIUM,
    )
