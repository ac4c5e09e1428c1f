"""Collectives that are right alone are wrong while others are under way.

Why it matters
    Training has several process groups, and starts the next collective before the last has
    ended: data, tensor and pipeline parallel groups share links, buffers and streams. What
    mixes them up raises no error.

What to do
    Update torch and NCCL on all hosts. Until then, let NCCL start one at a time
    (CUDA_DEVICE_MAX_CONNECTIONS=1) and wait for each collective before the next one; report
    the versions upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Finding
from ddpcheck.measures.wrong_elements import Compared, findings

GROUPS = {Profile.QUICK: 1, Profile.STANDARD: 1, Profile.FULL: 3}  # beside the world's
ROUNDS = {Profile.QUICK: 6, Profile.STANDARD: 12, Profile.FULL: 200}
# What every backend offers; neighbours in a round differ.
KINDS = ("all_reduce", "all_gather", "broadcast")
SIZES = (1023, 2**16 + 3)

Facts = Compared


def probe(ctx: Context) -> Facts:
    """Start a collective in each of several groups, and only then wait for any."""
    from ddpcheck.collectives.cases import Case
    from ddpcheck.collectives.in_flight import compared_at_once
    from ddpcheck.collectives.kinds import BY_NAME

    ctx.require_group()
    groups = GROUPS[ctx.profile]
    everything = cycle(
        Case(name, "float32", BY_NAME[name].plain_op, size, "contiguous", "async")
        for size in SIZES
        for name in KINDS
    )
    rounds = [list(islice(everything, groups + 1)) for _ in range(ROUNDS[ctx.profile])]
    return compared_at_once(ctx, groups, rounds)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for the ranks that got a wrong element."""
    return findings(facts, " while several groups are at work")


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many were under way at once."""
    fact = next(iter(facts.values()))
    return f"{fact.cases} collectives of several groups at once, {fact.elements:,} elements"
