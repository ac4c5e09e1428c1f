"""An all-reduce returns a wrong element.

Why it matters
    Every averaged gradient goes through an all-reduce. A wrong element raises no error:
    training goes on with it. Real causes were a faulty link or GPU, a broken build of the
    communication library, and kernels that were wrong for one dtype or odd size.

What to do
    Run again with --select collectives --profile full to see whether the same rank is
    wrong. With NCCL, try NCCL_P2P_DISABLE=1 or NCCL_ALGO=Ring in turn: what makes it right
    names the path. Take the named host out of the job, and report the versions upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Finding

# How many wrong cases one rank keeps: the first ones show the pattern.
KEPT_CASES = 8


class Wrong(msgspec.Struct, frozen=True):
    """The first wrong element of one all-reduce, and how many of its elements are wrong."""

    dtype: str
    op: str
    size: int
    layout: str
    mode: str
    index: int
    expected: float
    got: float
    wrong_elements: int


class Facts(msgspec.Struct, frozen=True):
    """What this rank got: cases run, wrong ones, and what the backend does not offer."""

    cases: int
    elements: int
    wrong_cases: int
    wrong: tuple[Wrong, ...]
    refused: dict[str, str]


def probe(ctx: Context) -> Facts:
    """All-reduce every case and compare each element with the exact result."""
    from ddpcheck.target.reduction import DTYPES, LAYOUTS, OPS, Reducer, cases

    ctx.require_group()
    reducer = Reducer(ctx)
    refused = {
        f"{op} {dtype}": reason
        for dtype in DTYPES
        for op in OPS
        if (reason := reducer.refusal(dtype, op))
    }
    for layout in LAYOUTS:
        if reason := reducer.refusal("float32", "SUM", layout):
            refused[layout] = reason
    layouts = [layout for layout in LAYOUTS if layout not in refused]
    todo = [
        case for case in cases(ctx.profile, layouts) if f"{case.op} {case.dtype}" not in refused
    ]
    wrong = [
        Wrong(*case, *found) for case in todo if (found := reducer.first_mismatch(case)) is not None
    ]
    return Facts(
        cases=len(todo),
        elements=sum(case.size for case in todo),
        wrong_cases=len(wrong),
        wrong=tuple(wrong[:KEPT_CASES]),
        refused=refused,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding that names the first wrong element and all ranks that have any."""
    none = tuple(rank for rank in sorted(facts) if not facts[rank].cases)
    if none:
        return [_refused(none, facts[none[0]])]
    bad = {rank: fact for rank, fact in facts.items() if fact.wrong}
    if not bad:
        return []
    first = min(bad)
    one = bad[first].wrong[0]
    return [
        Finding(
            title=f"all-reduce gives wrong values on {len(bad)} of {len(facts)} ranks",
            message=f"rank {first}: {one.op} of {one.size} {one.dtype} ({one.layout}, {one.mode}): "
            f"element {one.index} is {one.got:g}, expected {one.expected:g}; "
            f"{one.wrong_elements} elements of it and {bad[first].wrong_cases} of "
            f"{bad[first].cases} cases are wrong there",
            fix="take the named ranks' host out of the job, or try NCCL_P2P_DISABLE=1 and "
            "NCCL_ALGO=Ring in turn to find the path that is wrong",
            ranks=tuple(sorted(bad)),
            evidence={
                "dtype": one.dtype,
                "op": one.op,
                "size": one.size,
                "index": one.index,
                "expected": one.expected,
                "got": one.got,
                "wrong_cases": {str(rank): fact.wrong_cases for rank, fact in bad.items()},
            },
        )
    ]


def _refused(ranks: tuple[int, ...], fact: Facts) -> Finding:
    return Finding(
        title="the backend refuses every all-reduce",
        message=next(iter(fact.refused.values()), "no reason was given"),
        fix="use another --backend, or a torch build whose backend works",
        ranks=ranks,
    )


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was compared, and what the backend does not offer."""
    fact = next(iter(facts.values()))
    offered = f"; not offered: {', '.join(sorted(fact.refused))}" if fact.refused else ""
    return f"{fact.cases} all-reduces, {fact.elements:,} elements compared on each rank{offered}"
