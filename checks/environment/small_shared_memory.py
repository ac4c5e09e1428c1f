"""The shared memory in /dev/shm is too small.

Why it matters
    Loader workers hand their batches over in /dev/shm, and NCCL keeps its queues there. A container
    has 64 MB unless told otherwise: workers die of a "Bus error", NCCL ends with "unhandled system
    error" or hangs at the first collective. None of the messages names /dev/shm.
What to do
    docker run --shm-size=16g (or --ipc=host); in Kubernetes mount an emptyDir with medium: Memory
    at /dev/shm; elsewhere mount -o remount,size=16g /dev/shm. Remove what dead jobs left there
    (/dev/shm/nccl-*, /dev/shm/torch_*). Switching NCCL's use of it off would slow the job down.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.libraries import nccl_of_torch
from ddpcheck.machine.places import nccl_host, shared_place
from ddpcheck.machine.shared_memory import shared_memory
from ddpcheck.measures.hosts import by_place, host_names, joined, named
from ddpcheck.measures.more_room import SHARED_MEMORY
from ddpcheck.measures.versions import version
from ddpcheck.measures.words import listed, size

# A rank that sends to another host allocates one queue of operations, whatever the network.
# Source: NCCL, src/proxy.cc, proxyProgressInit (sizeof ncclProxyOpsPool): since 2.25, when
# MAXCHANNELS became 64, 33030528 bytes or more (github.com/ai-dynamo/dynamo/issues/1408), before
# that 10485760 and a little. Measured with 2.28.9 on 2 H200 made to use sockets: 34210176 each;
# with 64 MB for both one rank failed ("No space left on device") and the other one hung.
QUEUE_BYTES = 33_030_528
OLD_QUEUE_BYTES = 10_485_760
LONG_QUEUES = (2, 25)
# Without peer access between GPUs each rank receives through two channels or more of this size,
# unless CUDA can share host memory by itself (NCCL 2.24 with a driver for CUDA 12.6; not in a
# container without NUMA calls). Source: github.com/NVIDIA/nccl/issues/525; NCCL, cudawrap.cc,
# ncclCuMemHostEnable. 2 H200 did all-reduce with 1 MB over NVLink, and with 5 MB without it.
CHANNELS_BYTES = 2 * 9_637_888
# A batch of 32 images, 3 x 224 x 224 in float32; two workers hold two each (prefetch_factor).
BATCH_BYTES = 32 * 3 * 224 * 224 * 4
LOADER_BYTES = 4 * BATCH_BYTES
# Docker's and containerd's default. Source: docs.docker.com, "docker container run", --shm-size.
CONTAINER_BYTES = 64 * 2**20


class Facts(msgspec.Struct, frozen=True):
    """The size of /dev/shm and what is free of it, in bytes; NCCL's version, or '' on a CPU.

    ``place`` is common to the ranks that are shown one /dev/shm, which containers may have each
    for itself or in common; ``nccl_host`` to those that NCCL takes for those of one host.
    ``loader_is_known`` where the target is the user's: what its workers take is measured later, by
    data/loader-fills-shared-memory.
    """

    host: str
    place: str
    nccl_host: str
    size_bytes: int
    free_bytes: int
    nccl: str
    loader_is_known: bool


def probe(ctx: Context) -> Facts:
    """Return what /dev/shm offers."""
    space = shared_memory()
    if space is None:
        raise Skip("this system has no /dev/shm")
    nccl = nccl_of_torch() or "2" if ctx.on_gpu else ""
    return Facts(
        host=ctx.host,
        place=shared_place(ctx.host, space.device),
        nccl_host=nccl_host(ctx.host, ctx.environ),
        size_bytes=space.size_bytes,
        free_bytes=space.free_bytes,
        nccl=nccl,
        loader_is_known=bool(ctx.script),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts where NCCL cannot start, where the job may run short, and small defaults."""
    kinds: dict[Severity, list[dict[int, Facts]]] = {}
    over_network = len({own.nccl_host for own in facts.values()}) > 1
    for ranks in by_place(facts):
        if severity := _severity(list(ranks.values()), over_network):
            kinds.setdefault(severity, []).append(ranks)
    return [_finding(short, severity) for severity, short in kinds.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the least that is free on a host."""
    return f"{size(min(own.free_bytes for own in facts.values()))} free at least"


def _severity(own: list[Facts], over_network: bool) -> Severity | None:
    free_bytes = min(each.free_bytes for each in own)
    if over_network and free_bytes < _queue(own[0]):
        return Severity.ERROR
    if free_bytes < _need(own):
        return Severity.WARNING
    is_default = own[0].size_bytes <= CONTAINER_BYTES and _need(own) > 0
    return Severity.INFO if is_default else None


def _queue(own: Facts) -> int:
    """Return what the first rank that sends to another host takes; nothing without NCCL."""
    nccl = version(own.nccl)
    return (QUEUE_BYTES if nccl >= LONG_QUEUES else OLD_QUEUE_BYTES) if nccl else 0


def _need(own: list[Facts]) -> int:
    if not own[0].nccl:
        return 0 if own[0].loader_is_known else BATCH_BYTES
    nccl = max(_queue(own[0]), CHANNELS_BYTES) if len(own) > 1 else 0
    return len(own) * (nccl + (0 if own[0].loader_is_known else LOADER_BYTES))


def _finding(short: list[dict[int, Facts]], severity: Severity) -> Finding:
    everybody = joined(short)
    ranks = min(short, key=lambda ranks: min(own.free_bytes for own in ranks.values()))
    own = list(ranks.values())
    least = min(own, key=lambda own: own.free_bytes)
    sure = severity is Severity.ERROR
    return Finding(
        title="too little shared memory for NCCL to start" if sure else "little shared memory",
        message=f"{listed(host_names(everybody))}: {size(least.free_bytes)} of "
        f"{size(least.size_bytes)} of /dev/shm are free for {named(ranks)}; {_use(own, severity)}",
        fix=SHARED_MEMORY,
        ranks=tuple(everybody),
        severity=severity,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )


def _use(own: list[Facts], severity: Severity) -> str:
    if severity is Severity.ERROR:
        return f"the first rank that sends to another host takes {size(_queue(own[0]))} for NCCL"
    if own[0].nccl:
        loader = "" if own[0].loader_is_known else " and a small image loader"
        return f"NCCL{loader} may take up to {size(_need(own))} for {len(own)} rank(s)"
    return f"loader workers hand over batches in it: 32 images take {size(BATCH_BYTES)}"
