"""The ranks do not have one GPU each.

Why it matters
    NCCL refuses two ranks on one GPU ("Duplicate GPU detected"), or they run out of memory
    and halve each other's speed. It happens when a command asks for more ranks than the host
    shows GPUs ("invalid device ordinal"), or when a script ignores LOCAL_RANK.
What to do
    Start as many ranks a host as it shows GPUs, show all of them to every rank, and call
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before any other use of CUDA.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Recommendation, Severity
from ddpcheck.measures.peers import grouped

# Retired pages take some MiB; models differ by a sixth and more (24, 32, 40, 48, 80, 96, 141 GB).
MEMORY_TOLERANCE_RATIO = 0.05
# A slice of a GPU in MIG mode says so in its name; CUDA versions disagree on whose UUID it has.
MIG = " MIG "
COUNT = "start no more ranks on a host than it shows GPUs (torchrun --nproc-per-node)"
CHOOSE = "use cuda:0 where each rank is shown one GPU, or show every rank all GPUs of its host"
EQUAL = "ask the scheduler for one GPU model, or give the lesser GPUs less work"
BIND = 'call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before any other use of CUDA'


class Facts(msgspec.Struct, frozen=True):
    """The GPU of one rank, and what else the rank sees; ``local_rank`` is LOCAL_RANK."""

    host: str
    local_rank: int | None
    device_count: int
    device: str
    current_device: int
    uuid: str
    name: str
    memory_bytes: int
    mask: str
    machine: str = ""


def probe(ctx: Context) -> Facts:
    """Return the GPU that this rank works on."""
    ctx.require_gpu()
    import torch

    properties = torch.cuda.get_device_properties(ctx.device)
    return Facts(
        host=ctx.host,
        local_rank=ctx.local_rank if "LOCAL_RANK" in ctx.environ else None,
        device_count=torch.cuda.device_count(),
        device=ctx.device,
        current_device=torch.cuda.current_device(),
        uuid=f"GPU-{properties.uuid}",
        name=properties.name,
        memory_bytes=properties.total_memory,
        mask=f"CUDA_VISIBLE_DEVICES={ctx.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}",
        machine=ctx.machine,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return who has no GPU, shares one, is on another than its own, or has a lesser one."""
    hosts = grouped({rank: (own.host, own.machine) for rank, own in facts.items()})
    gpus = grouped({rank: own.uuid for rank, own in facts.items()})
    shared = {rank for ranks in gpus.values() if len(ranks) > 1 for rank in ranks}
    return [
        *(found for ranks in hosts.values() for found in _deviceless(facts, ranks, shared)),
        *(found for ranks in gpus.values() for found in _sharing(facts, ranks)),
        *_elsewhere(facts),
        *_unequal(facts),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many GPUs serve how many ranks, and their names."""
    gpus = len({own.uuid for own in facts.values()})
    names = ", ".join(sorted({own.name for own in facts.values()}))
    share = "one a rank" if gpus == len(facts) else f"for {len(facts)} ranks"
    return f"{gpus} GPU{'s' * (gpus != 1)}, {share}: {names}"


def recommend(facts: Mapping[int, Facts]) -> dict[str, Recommendation]:
    """Return the device, unless ranks would have to share one."""
    if len({own.uuid for own in facts.values()}) < len(facts):
        return {}
    return {"device": Recommendation("cuda", summarize(facts))}


def _deviceless(facts: Mapping[int, Facts], ranks: list[int], shared: set[int]) -> list[Finding]:
    beyond = [rank for rank in ranks if _is_beyond(facts[rank])]
    if not beyond:
        return []
    own = facts[beyond[0]]
    told = (
        f"{len(ranks)} ranks on {own.host} see {own.device_count} GPU(s) each ({own.mask}): "
        f"local rank {', '.join(str(facts[rank].local_rank) for rank in beyond)} has no device"
    )
    # Ray and Slurm can show every rank GPUs of its own: then none is shared.
    if shared.isdisjoint(ranks) and (own.device_count == 1 or len(ranks) > own.device_count):
        return [_finding(beyond, "LOCAL_RANK is not the index of a GPU", told, CHOOSE, sure=False)]
    return [_finding(beyond, "more ranks than GPUs", told, COUNT)]


def _sharing(facts: Mapping[int, Facts], ranks: Sequence[int]) -> Iterator[Finding]:
    # Where LOCAL_RANK has no device, that is the cause, and told as such.
    if len(ranks) > 1 and not any(_is_beyond(facts[rank]) for rank in ranks):
        own = facts[ranks[0]]
        users = ", ".join(f"rank {r} ({facts[r].host}, {facts[r].device})" for r in ranks)
        told = f"{users} are on one {own.name}, {own.uuid} ({own.mask})"
        yield _finding(ranks, "ranks share a GPU", told, BIND, sure=MIG not in own.name)


def _elsewhere(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    current = {rank: f"cuda:{own.current_device}" for rank, own in facts.items()}
    if astray := [rank for rank, own in facts.items() if own.device not in (current[rank], "cuda")]:
        told = ", ".join(f"rank {r} is on {current[r]}, not on {facts[r].device}" for r in astray)
        yield _finding(astray, "the current CUDA device is not the rank's own", told, BIND)


def _unequal(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    names = Counter(own.name for own in facts.values())
    least = max(own.memory_bytes for own in facts.values()) * (1 - MEMORY_TOLERANCE_RATIO)
    small = [rank for rank, own in facts.items() if own.memory_bytes < least]
    rare = [rank for rank, own in facts.items() if names[own.name] < max(names.values())]
    if len(names) > 1 or small:
        kinds = sorted({f"{own.name} ({own.memory_bytes} bytes)" for own in facts.values()})
        told = f"the slowest and the smallest set the pace of all: {', '.join(kinds)}"
        yield _finding(rare or small or list(facts), "unequal GPUs", told, EQUAL, sure=False)


def _is_beyond(own: Facts) -> bool:
    return own.local_rank is not None and own.local_rank >= own.device_count


def _finding(ranks: Sequence[int], title: str, told: str, fix: str, sure: bool = True) -> Finding:
    return Finding(
        title=title,
        message=told,
        fix=fix,
        ranks=tuple(sorted(ranks)),
        severity=Severity.ERROR if sure else Severity.WARNING,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )
