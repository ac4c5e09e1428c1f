"""A collective of more than 2^31 elements gives a wrong element.

Why it matters
    A count or offset that is kept in 32 bits overflows there: the end of a large flat buffer (all
    parameters of a model in one, a long sequence of activations) stays as it was, or lands
    elsewhere. Smaller messages are right, and nothing is raised.

What to do
    Split such messages (bucket_cap_mb in DDP, FSDP units a layer each), and report the versions
    upstream with the collective, size and index that are named.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.check import Context, Profile, Skip
from ddpcheck.finding import Finding
from ddpcheck.machine.memory import tightest_memory
from ddpcheck.measures.words import size
from ddpcheck.measures.wrong_elements import Compared, findings

ID = "collectives/wrong-when-huge"
Facts = Compared


def probe(ctx: Context) -> Facts:
    """Carry out an all-reduce and a broadcast of 2 GiB, one byte an element."""
    ctx.require_group()
    if ctx.profile is not Profile.FULL:
        raise Skip("it takes seconds, and 6 GiB a rank: run with --profile full")
    from ddpcheck.collectives.agreement import agreement
    from ddpcheck.collectives.huge import compared_huge

    tightest = tightest_memory()
    return compared_huge(ctx, agreement(ctx, ID), tightest[1].left if tightest else 0)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding with the first wrong element, and all ranks that have one."""
    return findings(facts, " in a message of more than 2^31 elements")


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return what was compared."""
    fact = next(iter(facts.values()))
    return f"{fact.cases} collectives of {size(fact.elements // max(fact.cases, 1))} each compared"
