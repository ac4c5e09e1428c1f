"""The script takes its local rank from an argument that is no longer passed.

Why it matters
    torch.distributed.launch of torch 2 passes ``--local-rank``; argparse refuses it in a script
    that knows only ``--local_rank`` ("unrecognized arguments"). torchrun passes neither: there
    the argument keeps its default, and all ranks of a host take the same GPU.
What to do
    Read int(os.environ["LOCAL_RANK"]), which every launcher of torch sets; where old launch
    scripts must go on working, add both spellings: add_argument("--local-rank", "--local_rank").
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.script import Place, shown, text_of
from ddpcheck.measures.script_arguments import old_local_rank_arguments


class Facts(msgspec.Struct, frozen=True):
    """Where the script of a rank adds the old argument."""

    script: str
    places: tuple[Place, ...]


def probe(ctx: Context) -> Facts:
    """Read the script."""
    if not ctx.script:
        raise Skip("the target is built in: there is no script of yours to read")
    return Facts(ctx.script, tuple(old_local_rank_arguments(text_of(ctx.script))))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each script; information where it reads the environment too."""
    told: dict[tuple[str, tuple[Place, ...]], list[int]] = {}
    for rank, own in sorted(facts.items()):
        if own.places and len(facts) > 1:
            told.setdefault((own.script, own.places), []).append(rank)
    return [
        Finding(
            title="the script knows --local_rank, not --local-rank",
            message=f"{shown(places)}: torch.distributed.launch passes --local-rank, torchrun "
            "neither",
            fix='read int(os.environ["LOCAL_RANK"]), or add_argument("--local-rank", '
            '"--local_rank")',
            ranks=tuple(ranks),
            severity=Severity.INFO if places[0].note == "environment" else Severity.WARNING,
            confidence=Confidence.MEDIUM,
            location=Location(script, places[0].line),
        )
        for (script, places), ranks in told.items()
    ]
