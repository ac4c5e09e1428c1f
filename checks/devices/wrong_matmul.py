"""A matrix product is wrong, or not the same twice.

Why it matters
    A worn chip, a bad core or a broken library computes wrong numbers without an error: one such
    device among hundreds spoils every gradient they average. Nothing crashes; the loss is off.
What to do
    Run again with --select devices --profile full. If the same device is wrong, take its host out
    of the job and report it (dcgmi diag -r 4 is NVIDIA's own test); if all of them are, try
    another build of torch.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Profile
from ddpcheck.finding import Finding
from ddpcheck.measures.words import listed
from ddpcheck.measures.wrong_values import WrongProduct

ON_GPU = ("float32", "bfloat16", "float16")
ON_CPU = ("float32",)  # many CPUs emulate the others
RUNS = {Profile.QUICK: 2, Profile.STANDARD: 4, Profile.FULL: 200}
GPU_TILES_COUNT = 32  # 4096 rows and columns: enough for each of a GPU's processors
KEPT_COUNT = 8  # wrong products that a rank tells of
TAKE_OUT = "take the device out of the job and test it: --profile full, or dcgmi diag -r 4"


class Facts(msgspec.Struct, frozen=True):
    """How many products were compared, wrong ones, and the dtypes whose product changes."""

    host: str
    device: str
    products: int
    wrong: tuple[WrongProduct, ...]
    unsteady: tuple[str, ...]


def probe(ctx: Context) -> Facts:
    """Multiply matrices whose product is known exactly, and some others, several times over."""
    import torch

    from ddpcheck.target.products import is_steady, wrong_products

    tiles = GPU_TILES_COUNT if ctx.on_gpu else 1
    runs = RUNS[ctx.profile]
    names = ON_GPU if ctx.on_gpu else ON_CPU
    dtypes = [getattr(torch, name) for name in names]
    wrong = [each for dtype in dtypes for each in wrong_products(dtype, ctx.device, tiles, runs, 0)]
    # A CPU's library may split a sum in another way each time; cuBLAS does not.
    # Source: cuBLAS, "Results Reproducibility".
    unsteady = [
        name
        for name, dtype in zip(names, dtypes, strict=True)
        if ctx.on_gpu and not is_steady(dtype, ctx.device, tiles, runs)
    ]
    products = len(dtypes) * 2 * runs
    return Facts(ctx.host, ctx.device, products, tuple(wrong[:KEPT_COUNT]), tuple(unsteady))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for wrong products, and one for products that change."""
    wrong = [rank for rank in sorted(facts) if facts[rank].wrong]
    unsteady = [rank for rank in sorted(facts) if facts[rank].unsteady and rank not in wrong]
    return [*_wrong(facts, wrong), *_unsteady(facts, unsteady)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how much was compared."""
    return f"{min(own.products for own in facts.values())} matrix products compared on each rank"


def _wrong(facts: Mapping[int, Facts], ranks: Sequence[int]) -> Iterator[Finding]:
    for rank in ranks[:1]:
        one = facts[rank].wrong[0]
        yield Finding(
            title="a matrix product is wrong",
            message=f"{_named(facts, ranks)}: {one.dtype} product ({one.factors}), row {one.row}, "
            f"column {one.column} is {one.got}, expected exactly {one.expected}; "
            f"{one.elements} elements of it are wrong",
            fix=TAKE_OUT,
            ranks=tuple(ranks),
            evidence={
                str(each): [f"{wrong.dtype}: {wrong.factors}" for wrong in facts[each].wrong]
                for each in ranks
            },
        )


def _unsteady(facts: Mapping[int, Facts], ranks: Sequence[int]) -> Iterator[Finding]:
    if ranks:
        dtypes = sorted({name for rank in ranks for name in facts[rank].unsteady})
        yield Finding(
            title="a matrix product is not the same twice",
            message=f"{_named(facts, ranks)}: the same product in {', '.join(dtypes)} differed "
            "between runs on one stream",
            fix=TAKE_OUT,
            ranks=tuple(ranks),
        )


def _named(facts: Mapping[int, Facts], ranks: Sequence[int]) -> str:
    return listed(f"rank {r} ({facts[r].host}, {facts[r].device})" for r in ranks)
