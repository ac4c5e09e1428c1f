"""The memory of a GPU does not give back what was written.

Why it matters
    ECC corrects and reports most errors, where it is there and on. What it does not see (a bad
    cell on a card without ECC, a broken address line, an unstable overclock) changes weights and
    gradients without an error.
What to do
    Take the GPU out of the job, and test it with dcgmi diag -r 4 or memtest; on a card without ECC
    return its clocks to their defaults first. QUICK tries 256 MiB of it, FULL most of what is free.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.finding import Finding
from ddpcheck.measures.words import listed
from ddpcheck.measures.wrong_values import WrongMemory

SIZE_MIB = {Profile.QUICK: 256, Profile.STANDARD: 1024}
ROUNDS = {Profile.QUICK: 1, Profile.STANDARD: 1, Profile.FULL: 3}
# In FULL, of the memory that is free; in the others as well, when little is free.
SHARE_RATIO = 0.8
MIB = 2**20


class Facts(msgspec.Struct, frozen=True):
    """How much of the GPU's memory was tried, in bytes, and what came back wrong."""

    host: str
    device: str
    tried_bytes: int
    wrong: tuple[WrongMemory, ...]


def probe(ctx: Context) -> Facts:
    """Write patterns to a part of the GPU's free memory, and read them back."""
    ctx.require_gpu()
    import torch

    from ddpcheck.target.memory_patterns import wrong_memory

    free_bytes = int(torch.cuda.mem_get_info(ctx.device)[0] * SHARE_RATIO)
    wanted_mib = SIZE_MIB.get(ctx.profile, free_bytes // MIB)
    tried_bytes = min(wanted_mib, free_bytes // MIB) * MIB
    if not tried_bytes:
        raise Skip("no memory of the GPU is free")
    wrong = wrong_memory(ctx.device, tried_bytes, ROUNDS[ctx.profile])
    torch.cuda.empty_cache()
    return Facts(ctx.host, ctx.device, tried_bytes, tuple(wrong))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the GPUs whose memory is wrong."""
    bad = [rank for rank in sorted(facts) if facts[rank].wrong]
    if not bad:
        return []
    one = facts[bad[0]].wrong[0]
    named = listed(f"rank {r} ({facts[r].host}, {facts[r].device})" for r in bad)
    bits = ", ".join(map(str, one.flipped_bits)) or "none when read again"
    return [
        Finding(
            title="a GPU's memory gives back other values",
            message=f"{named}: pattern {one.pattern}, at offset "
            f"{one.offset_bytes} bytes {one.got:#018x}, expected {one.expected:#018x} (flipped "
            f"bits: {bits}); {one.words} words of 8 bytes are wrong",
            fix="take the GPU out of the job, and test it: dcgmi diag -r 4",
            ranks=tuple(bad),
            evidence={
                str(r): [f"{each.pattern}: {each.words} words" for each in facts[r].wrong]
                for r in bad
            },
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was tried."""
    tried_mib = min(own.tried_bytes for own in facts.values()) // MIB
    return f"{tried_mib:,} MiB of each GPU's memory written and read back"
