"""The script waits in a barrier before it has chosen its GPU.

Why it matters
    An NCCL barrier needs a GPU. When none was chosen torch guesses one from the global rank
    ("devices used by this process are currently unknown. This can potentially cause a hang"):
    where ranks are laid out in another way than it guesses, the barrier hangs, or opens a
    context on another rank's GPU.
What to do
    Call torch.cuda.set_device(local_rank) before init_process_group, or pass it
    device_id=torch.device("cuda", local_rank).
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.script import Place, shown, text_of
from ddpcheck.measures.script_devices import barriers_before_device


class Facts(msgspec.Struct, frozen=True):
    """Where the script waits so, and the GPU index that torch would guess (None: on a CPU)."""

    script: str
    places: tuple[Place, ...]
    local_rank: int
    guess: int | None


def probe(ctx: Context) -> Facts:
    """Read the script."""
    if not ctx.script:
        raise Skip("the target is built in: there is no script of yours to read")
    import torch

    gpus = torch.cuda.device_count() if ctx.on_gpu else 0
    # Source: guessDeviceForRank in torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp.
    guess = ctx.rank % gpus if gpus else None
    places = tuple(barriers_before_device(text_of(ctx.script)))
    return Facts(ctx.script, places, ctx.local_rank % gpus if gpus else ctx.local_rank, guess)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each script; a warning where a rank's guess would be wrong."""
    if len(facts) == 1:
        return []
    told: dict[tuple[str, tuple[Place, ...]], list[int]] = {}
    for rank, own in sorted(facts.items()):
        if own.places:
            told.setdefault((own.script, own.places), []).append(rank)
    return [_finding(facts, ranks) for ranks in told.values()]


def _finding(facts: Mapping[int, Facts], ranks: list[int]) -> Finding:
    own = facts[ranks[0]]
    wrong = [r for r in ranks if facts[r].guess not in (None, facts[r].local_rank)]
    guessed = [
        f"; torch would guess cuda:{facts[rank].guess} for rank {rank}, whose own is "
        f"cuda:{facts[rank].local_rank}"
        for rank in wrong[:1]
    ]
    return Finding(
        title="a barrier before the GPU is chosen",
        message=f"{shown(own.places)}, with no set_device before it and no device_id"
        + "".join(guessed),
        fix='pass device_id=torch.device("cuda", local_rank) to init_process_group, or call '
        "torch.cuda.set_device(local_rank) before it",
        ranks=tuple(wrong or ranks),
        severity=Severity.WARNING if wrong else Severity.INFO,
        confidence=Confidence.MEDIUM,
        location=Location(own.script, own.places[0].line),
    )
