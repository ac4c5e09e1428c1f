"""An object that was sent to other ranks arrives as another.

Why it matters
    Scripts send settings, metrics and file names as pickled objects (broadcast_object_list,
    all_gather_object). When one rank's object arrives in another's place, ranks go on with
    different settings, and nothing raises.

What to do
    Update torch on all hosts to one version. With NCCL, set the device before the first
    collective (torch.cuda.set_device), since the bytes travel through the GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Finding
from ddpcheck.measures.words import listed


class Facts(msgspec.Struct, frozen=True):
    """The functions that gave a wrong object, and whose object it should have been."""

    wrong: dict[str, int]


def probe(ctx: Context) -> Facts:
    """Send an object of each rank by each of torch's functions, and compare what arrives."""
    from ddpcheck.collectives.objects import wrong_objects

    ctx.require_group()
    return Facts(wrong_objects(ctx.rank, ctx.world_size))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks to which a wrong object came."""
    bad = {rank: facts[rank].wrong for rank in sorted(facts) if facts[rank].wrong}
    if not bad:
        return []
    told = (
        f"rank {rank}: {name} gave another object than rank {source} sent"
        for rank, wrong in bad.items()
        for name, source in wrong.items()
    )
    return [
        Finding(
            title=f"objects arrive as others on {len(bad)} of {len(facts)} ranks",
            message=listed(told, "; "),
            fix="install one version of torch on all hosts, and call torch.cuda.set_device before "
            "the first collective",
            ranks=tuple(bad),
            evidence={str(rank): sorted(wrong) for rank, wrong in bad.items()},
        )
    ]
