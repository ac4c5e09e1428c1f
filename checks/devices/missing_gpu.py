"""Some ranks see no GPU, and others do.

Why it matters
    One container that was started without GPUs, or one host whose driver is down, is enough: a
    script that falls back to the CPU where it finds no GPU trains there, a hundred times slower
    than its peers, or waits with them in NCCL until a timeout. Nothing names the host.
What to do
    See to the cause that is named for each host: start every container with --gpus all, ask the
    scheduler for GPUs on every node, unset CUDA_VISIBLE_DEVICES, run nvidia-smi there. Where the
    CPU is meant, say so: --backend gloo.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.machine.driver import why_no_gpu
from ddpcheck.measures.words import listed, spans

FIX = (
    "on the named host, see to that cause: docker run --gpus all, a request for GPUs on every "
    "node, CUDA_VISIBLE_DEVICES, or the driver (nvidia-smi); where the CPU is meant: --backend gloo"
)


class Facts(msgspec.Struct, frozen=True):
    """How many GPUs a rank sees, and in words why it sees none."""

    host: str
    gpus: int
    why: str


def probe(ctx: Context) -> Facts:
    """Return how many GPUs this process sees."""
    if ctx.asked_backend == "gloo":
        raise Skip("the CPU was asked for")
    if ctx.gpus:
        return Facts(ctx.host, ctx.gpus, "")
    import torch

    built_for = torch.version.cuda or torch.version.hip or ""
    return Facts(ctx.host, 0, why_no_gpu(ctx.environ, built_for))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding that names those without a GPU, unless no rank sees one."""
    blind: dict[tuple[str, str], list[int]] = {}
    for rank, own in sorted(facts.items()):
        if not own.gpus:
            blind.setdefault((own.host, own.why), []).append(rank)
    ranks = sorted(rank for each in blind.values() for rank in each)
    if len(ranks) in (0, len(facts)):
        return []
    told = (f"rank {spans(each)} ({host}): {why}" for (host, why), each in blind.items())
    seeing = len(facts) - len(ranks)
    return [
        Finding(
            title="ranks see no GPU, others do",
            message=f"{listed(told, '; ')}; {seeing} of {len(facts)} ranks see a GPU",
            fix=FIX,
            ranks=tuple(ranks),
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many GPUs a rank sees."""
    counts = sorted({own.gpus for own in facts.values()})
    return f"each rank sees {' or '.join(map(str, counts))} GPU(s)"
