"""The script names a GPU by a fixed number.

Why it matters
    Every rank of a host runs the same script: with ``cuda:0`` in it they all compute on one GPU.
    NCCL refuses that ("Duplicate GPU detected"), or the ranks share its memory and its speed while
    the other GPUs idle.
What to do
    Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) first, and write "cuda" or
    f"cuda:{local_rank}" instead of the number.
"""

from collections.abc import Mapping

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.script import shown, text_of
from ddpcheck.measures.script_devices import Reading, hard_coded_devices, sets_mask, with_a_choice


class Facts(Reading, frozen=True):
    """Where the script names a fixed GPU, and how many GPUs the rank sees (0: on a CPU)."""


def probe(ctx: Context) -> Facts:
    """Read the script; one that sets its own mask may call the only GPU it shows cuda:0."""
    if not ctx.script:
        raise Skip("the target is built in: there is no script of yours to read")
    import torch

    source = text_of(ctx.script)
    if sets_mask(source):
        raise Skip("the script chooses its GPU by CUDA_VISIBLE_DEVICES")
    gpus = torch.cuda.device_count() if ctx.on_gpu else 0
    places = tuple(hard_coded_devices(source))
    return Facts(ctx.host, ctx.script, places, ctx.on_gpu, gpus, ctx.machine)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each script, where ranks on one host have a choice of GPUs."""
    return [
        Finding(
            title="a fixed GPU for all ranks of a host",
            message=f"{len(ranks)} ranks run the same script: {shown(places)}",
            fix='call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), and write "cuda" or '
            'f"cuda:{local_rank}"',
            ranks=tuple(ranks),
            severity=Severity.WARNING if on_gpu else Severity.INFO,
            confidence=Confidence.MEDIUM,
            location=Location(script, places[0].line),
        )
        for (script, places, on_gpu), ranks in with_a_choice(facts).items()
    ]
