"""Others use the memory of a rank's GPU.

Why it matters
    A notebook, a job that did not end or another user's program takes memory and time of the
    GPU: the job runs out of memory at its largest batch, or all wait for one slow rank. A rank
    that holds a context on a neighbour's GPU takes half a gigabyte there.
What to do
    End what should have ended (nvidia-smi shows the PIDs; ps -o user,args -p PID tells whose
    they are), ask the scheduler for GPUs of your own, and set CUDA_VISIBLE_DEVICES or call
    torch.cuda.set_device(LOCAL_RANK) before anything else touches CUDA.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.gpu import Process, gpu_of
from ddpcheck.machine.processes import own_pids
from ddpcheck.measures.words import listed

MPS_SERVER = "nvidia-cuda-mps-server"  # it serves the ranks themselves, if they use it
# Our choice: what the driver and rounding take is less.
USED_BY_OTHERS_RATIO = 0.1
# Our choice: a context of torch with NCCL takes less.
CONTEXT_BYTES = 2**30
GIB_BYTES = 2**30
END = "see whose they are (ps -o user,args -p PID), and end them or use other GPUs"
LEFT = "nvidia-smi on the host shows who; if nobody, a process that hangs (ps -eo pid,stat,args)"
BIND = "call torch.cuda.set_device(LOCAL_RANK) before any other use of CUDA; use map_location"


class Facts(msgspec.Struct, frozen=True):
    """The rank's GPU, its memory, who is on it, and the PIDs of the rank and its parents.

    ``processes`` is None when the driver does not tell; ``pids_from`` names the PID namespace.
    """

    host: str
    uuid: str
    total_bytes: int | None
    used_bytes: int | None
    processes: tuple[Process, ...] | None
    pids: tuple[int, ...]
    pids_from: str


def probe(ctx: Context) -> Facts:
    """Return who is on this rank's GPU, and how much of its memory is in use."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    if gpu.mig:
        raise Skip("the driver does not tell who is on a slice of a GPU")
    return Facts(
        host=ctx.host,
        uuid=gpu.uuid,
        total_bytes=gpu.total_bytes,
        used_bytes=gpu.used_bytes,
        processes=gpu.processes,
        pids=own_pids(),
        pids_from=f"{ctx.machine or ctx.host} {Path('/proc/self/ns/pid').readlink()}",
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for others' processes, for ranks on others' GPUs, and for lost memory."""
    others = {r: _told(found) for r, found in sorted(_strangers(facts).items()) if found}
    on_gpu = Counter(own.uuid for own in facts.values())
    unnamed = {
        r: _unnamed(own, on_gpu[own.uuid]) for r, own in sorted(facts.items()) if r not in others
    }
    return [
        *_finding(facts, others, "other processes are on a rank's GPU", END),
        *_finding(facts, dict(_visitors(facts)), "a rank holds a context on another's GPU", BIND),
        *_finding(facts, unnamed, "memory of a rank's GPU is in use by others", LEFT),
    ]


def _on_gpus(facts: Mapping[int, Facts]) -> dict[int, tuple[Process, ...]]:
    """Return who is on each rank's GPU, where the driver's PIDs are those of the ranks."""
    on: dict[int, tuple[Process, ...]] = {r: own.processes or () for r, own in facts.items()}
    # In a container they may be the host's: a rank that finds itself knows better.
    listed_themselves = (own for r, own in facts.items() if own.pids[0] in {p.pid for p in on[r]})
    alike = {own.pids_from for own in listed_themselves}
    return {rank: found for rank, found in on.items() if facts[rank].pids_from in alike}


def _strangers(facts: Mapping[int, Facts]) -> dict[int, list[Process]]:
    """Return who is not of the run; a launcher's context is, a notebook's data is not."""
    ranks = {(own.pids_from, own.pids[0]) for own in facts.values()}
    parents = {(own.pids_from, pid) for own in facts.values() for pid in own.pids[1:]}

    def is_strange(rank: int, process: Process) -> bool:
        who = (facts[rank].pids_from, process.pid)
        launches = who in parents and (process.used_bytes or 0) <= CONTEXT_BYTES
        return not (who in ranks or launches or process.graphical or process.name == MPS_SERVER)

    on_gpus = _on_gpus(facts).items()
    return {rank: [each for each in found if is_strange(rank, each)] for rank, found in on_gpus}


def _visitors(facts: Mapping[int, Facts]) -> Iterator[tuple[int, str]]:
    """Yield the ranks that are on another rank's GPU."""
    places: dict[tuple[str, int], set[str]] = {}
    for rank, found in _on_gpus(facts).items():
        for process in found:
            places.setdefault((facts[rank].pids_from, process.pid), set()).add(facts[rank].uuid)
    for rank, own in sorted(facts.items()):
        if elsewhere := places.get((own.pids_from, own.pids[0]), set()) - {own.uuid}:
            yield rank, f"works on {own.uuid}, is also on {', '.join(sorted(elsewhere))}"


def _unnamed(own: Facts, ranks: int) -> str:
    if own.total_bytes is None or own.used_bytes is None:
        return ""
    named = sum(process.used_bytes or 0 for process in own.processes or ())
    left = own.used_bytes - max(named, CONTEXT_BYTES * ranks)
    if left <= own.total_bytes * USED_BY_OTHERS_RATIO:
        return ""
    gib = own.total_bytes / GIB_BYTES
    most = f"limit {gib * USED_BY_OTHERS_RATIO:.1f}"
    return f"{left / GIB_BYTES:.1f} of {gib:.1f} GiB in use, not by this run; {most}"


def _told(found: list[Process]) -> str:
    return listed(
        f"PID {each.pid} ({each.name or 'unknown'}, {(each.used_bytes or 0) / GIB_BYTES:.1f} GiB)"
        for each in found
    )


def _finding(
    facts: Mapping[int, Facts], told: Mapping[int, str], title: str, fix: str
) -> Iterator[Finding]:
    ranks = tuple(rank for rank, words in told.items() if words)
    if ranks:
        yield Finding(
            title=title,
            message=listed((f"rank {r} ({facts[r].host}): {told[r]}" for r in ranks), "; "),
            fix=fix,
            ranks=ranks,
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
