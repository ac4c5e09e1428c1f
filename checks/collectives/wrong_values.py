"""A collective gives a wrong element.

Why it matters
    Gradients, parameters and activations go through collectives. A wrong element raises no
    error: training goes on with it. Real causes were a faulty link or GPU, a broken build of
    the communication library, and kernels that were wrong for one dtype, op or odd size.

What to do
    Run again with --select collectives --profile full to see whether the same rank is
    wrong. With NCCL, try NCCL_P2P_DISABLE=1 or NCCL_ALGO=Ring in turn: what makes it right
    names the path. Take the named host out of the job, and report the versions upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.check import Context
from ddpcheck.finding import Finding
from ddpcheck.measures.wrong_elements import Compared, findings

Facts = Compared


def probe(ctx: Context) -> Facts:
    """Carry out every case and compare each element with the exact result."""
    from ddpcheck.collectives.cases import cases
    from ddpcheck.collectives.comparison import compared

    ctx.require_group()
    return compared(ctx, cases(ctx.profile, ctx.world_size, on_gpu=ctx.on_gpu))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding that names the first wrong element and all ranks that have any."""
    none = tuple(rank for rank in sorted(facts) if not facts[rank].cases)
    if none:
        return [_refused(none, facts[none[0]])]
    return findings(facts)


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was compared, and what the backend does not offer."""
    fact = next(iter(facts.values()))
    count = sum(len(each) for each in fact.refused.values())
    offered = f"; {count} kinds of them not offered by {fact.backend}" if count else ""
    return f"{fact.cases} collectives, {fact.elements:,} elements compared on each rank{offered}"


def _refused(ranks: tuple[int, ...], fact: Facts) -> Finding:
    return Finding(
        title="the backend refuses every collective",
        message=next(iter(fact.refused), "no reason was given"),
        fix="use another --backend, or a torch build whose backend works",
        ranks=ranks,
    )
