"""The script loads a checkpoint onto whatever GPU it was saved from.

Why it matters
    torch.load puts each tensor back onto the device it had when it was saved, mostly GPU 0. With
    several ranks on a host each of them then opens a context and a copy of the checkpoint there,
    and rank 0 runs out of memory when training resumes.
What to do
    Pass map_location="cpu", or f"cuda:{local_rank}", to torch.load.
"""

from collections.abc import Mapping

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.script import shown, text_of
from ddpcheck.measures.script_devices import Reading, loads_without_map_location, with_a_choice


class Facts(Reading, frozen=True):
    """Where the script of a rank loads so, and how many GPUs the rank sees (0: on a CPU)."""


def probe(ctx: Context) -> Facts:
    """Read the script."""
    if not ctx.script:
        raise Skip("the target is built in: there is no script of yours to read")
    import torch

    places = tuple(loads_without_map_location(text_of(ctx.script)))
    gpus = torch.cuda.device_count() if ctx.on_gpu else 0
    return Facts(ctx.host, ctx.script, places, ctx.on_gpu, gpus, ctx.machine)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each script, where ranks on one host have a choice of GPUs."""
    return [
        Finding(
            title="torch.load without map_location",
            message=f"{len(ranks)} ranks would load onto the GPU that was saved from: "
            f"{shown(places)}",
            fix='pass map_location="cpu", or f"cuda:{local_rank}", to torch.load',
            ranks=tuple(ranks),
            severity=Severity.WARNING if on_gpu else Severity.INFO,
            confidence=Confidence.MEDIUM,
            location=Location(script, places[0].line),
        )
        for (script, places, on_gpu), ranks in with_a_choice(facts).items()
    ]
