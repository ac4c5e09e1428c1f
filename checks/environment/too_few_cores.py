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

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.cgroups import cpu_quota
from ddpcheck.machine.cores import core_count, in_spans, own_cores, spans
from ddpcheck.measures.hosts import by_host, ranks_on
from ddpcheck.measures.words import listed

# Twice as many threads as cores is common with hyper-threading, and not all are busy at once.
CROWDED_RATIO = 2.0


class Facts(msgspec.Struct, frozen=True):
    """The cores that a rank may use, as "0-3,8", of how many, and the quota of time in cores.

    ``threads`` is what torch starts for one operation, ``asked`` the value of OMP_NUM_THREADS.
    """

    host: str
    on_gpu: bool
    cores: str
    core_count: int
    quota: float | None
    threads: int
    asked: str


def probe(ctx: Context) -> Facts:
    """Return the cores and threads of this rank."""
    import torch

    return Facts(
        host=ctx.host,
        on_gpu=ctx.on_gpu,
        cores=spans(own_cores()),
        core_count=core_count(),
        quota=cpu_quota(),
        threads=torch.get_num_threads(),
        asked=ctx.environ.get("OMP_NUM_THREADS", ""),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts whose ranks are on one core, starve GPUs, or start too many threads."""
    hosts = {host: list(ranks.values()) for host, ranks in by_host(facts).items()}
    kinds: dict[str, list[str]] = {}
    for host, own in hosts.items():
        for kind in _kinds(own):
            kinds.setdefault(kind, []).append(host)
    return [_finding(facts, kind, named) for kind, named in kinds.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the fewest cores a rank has for itself."""
    hosts = [list(ranks.values()) for ranks in by_host(facts).values()]
    return f"{min(_cores(own) / len(own) for own in hosts):.3g} cores a rank at least"


def _kinds(own: list[Facts]) -> Iterator[str]:
    cores, threads = _cores(own), sum(each.threads for each in own)
    if len(own) > 1 and len(_union(own)) == 1 < own[0].core_count:
        yield "the ranks are bound to one core"
    elif own[0].on_gpu and cores < len(own):
        yield "fewer cores than GPUs at work"
    elif threads > CROWDED_RATIO * cores and threads > len(own):
        yield _crowding(own)


def _crowding(own: list[Facts]) -> str:
    asked = any(each.asked for each in own)
    return "OMP_NUM_THREADS is too high" if asked else "each rank starts a thread a core"


def _union(own: list[Facts]) -> set[int]:
    return {core for text in {each.cores for each in own} for core in in_spans(text)}


def _cores(own: list[Facts]) -> float:
    quotas = [each.quota for each in own if each.quota is not None]
    return min([float(len(_union(own))), *quotas])


def _finding(facts: Mapping[int, Facts], kind: str, hosts: list[str]) -> Finding:
    own = list(by_host(facts)[hosts[0]].values())
    cores = _cores(own)
    quota = f", time for {own[0].quota:.3g} of them" if own[0].quota is not None else ""
    chosen = kind != "each rank starts a thread a core"
    return Finding(
        title=kind,
        message=f"{listed(hosts)}: on {hosts[0]} {len(own)} rank(s) with {own[0].threads} thread(s)"
        f" each may use core {spans(_union(own))} of {own[0].core_count}{quota}"
        + (f"; OMP_NUM_THREADS={own[0].asked}" if own[0].asked else ""),
        fix=f"export OMP_NUM_THREADS={max(1, int(cores / len(own)))}, or give the ranks more cores "
        "(sbatch --cpus-per-task, docker run --cpus, Kubernetes' limits.cpu, srun "
        "--cpu-bind=cores, mpirun --bind-to none)",
        ranks=ranks_on(hosts, facts),
        severity=Severity.WARNING if chosen else Severity.INFO,
        confidence=Confidence.MEDIUM,
    )
