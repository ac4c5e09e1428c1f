"""All-reduce one case and compare every element with the exact result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import torch
import torch.distributed as dist

from ddpcheck.check import Context, Profile
from ddpcheck.target.exact import contribution, expected, inputs_of, tolerance

DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
SMALL_SIZES = (1, 7, 1023)
# 2 MiB of float32: gloo splits it (its segments have 1 MiB), NCCL takes its bulk protocol.
LARGE_SIZE = 2**19 + 3
# Fewer elements lie in memory in the same way in every layout.
ASKED_SIZE = 4
LAYOUTS = ("contiguous", "transposed")
MODES = ("blocking", "async")


class Case(NamedTuple):
    """One all-reduce: dtype and op by name, size in elements."""

    dtype: str
    op: str
    size: int
    layout: str
    mode: str


class Mismatch(NamedTuple):
    """The first wrong element of a case on this rank, and how many of its elements are."""

    place: int
    expected: float
    got: float
    wrong_elements: int


def cases(profile: Profile, layouts: Sequence[str] = LAYOUTS) -> Iterator[Case]:
    """Yield the cases of a profile, in the layouts that the backend takes.

    Every dtype and op comes in every size; the layouts and modes take turns, one a size, so
    that each dtype and op meets them all. All combinations when full; quick leaves out the
    large size.
    """
    ways = list(product(layouts, MODES))
    sizes = SMALL_SIZES if profile is Profile.QUICK else (*SMALL_SIZES, LARGE_SIZE)
    for number, (dtype, op) in enumerate(product(DTYPES, OPS)):
        for turn, size in enumerate(sizes, start=number):
            chosen = ways if profile is Profile.FULL else [ways[turn % len(ways)]]
            yield from (Case(dtype, op, size, *way) for way in chosen)


class Reducer:
    """All-reduces cases on one rank; makes each op's inputs and results once a size."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._kept: dict[tuple[str, int], torch.Tensor] = {}

    def first_mismatch(self, case: Case) -> Mismatch | None:
        """Reduce one case; return its first wrong element, or None when all are right."""
        put_in, exact = self._values(case)
        got = _all_reduce(laid_out(put_in.to(getattr(torch, case.dtype)), case.layout), case)
        return self._compare(case, got, exact)

    def refusal(self, dtype: str, op: str, layout: str = LAYOUTS[0]) -> str:
        """Return why the backend refuses such tensors, or '' if it takes them.

        It refuses by its own rules, and so on all ranks alike.
        """
        few = torch.ones(ASKED_SIZE, dtype=getattr(torch, dtype), device=self._ctx.device)
        try:
            _all_reduce(laid_out(few, layout), Case(dtype, op, ASKED_SIZE, layout, MODES[0]))
        except (RuntimeError, ValueError, TypeError) as error:
            if _is_refusal(str(error)):
                return " ".join(str(error).split())[:120]
            raise
        return ""

    def _values(self, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
        world, device = self._ctx.world_size, self._ctx.device
        put_in, exact = (inputs_of(case.op), case.size), (case.op, case.size)
        if put_in not in self._kept:
            values = contribution(case.op, self._ctx.rank, world, case.size)
            self._kept[put_in] = values.to(device)
        if exact not in self._kept:
            self._kept[exact] = expected(case.op, world, case.size).to(device)
        return self._kept[put_in], self._kept[exact]

    def _compare(self, case: Case, got: torch.Tensor, exact: torch.Tensor) -> Mismatch | None:
        dtype = got.dtype
        allowed = tolerance(case.op, dtype, self._ctx.world_size)
        wanted = exact.to(torch.float64) if allowed else exact.to(dtype)
        if not allowed and torch.equal(got, wanted):
            return None
        bad = (got.double() - wanted).abs().le(allowed).logical_not() if allowed else got != wanted
        count = int(bad.sum())
        if not count:
            return None
        index = int(bad.nonzero()[0])
        return Mismatch(index, float(wanted[index]), float(got[index]), count)


def _all_reduce(tensor: torch.Tensor, case: Case) -> torch.Tensor:
    """Return the result as [size], whatever the layout that went in."""
    work = dist.all_reduce(tensor, getattr(dist.ReduceOp, case.op), async_op=case.mode == "async")
    if work is not None:
        work.wait()
    return tensor if tensor.dim() == 1 else tensor.t().reshape(-1)[-case.size :]


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """Return a copy of the values, [size], in that layout."""
    if layout == "contiguous":
        return values.clone()
    # Dense, but with strides (1, half): backends must not reduce in row order. An odd size gets
    # its first value twice.
    half = -(-len(values) // 2)
    return torch.cat([values[: 2 * half - len(values)], values]).reshape(2, half).t()


def _is_refusal(message: str) -> bool:
    """Return whether the message says "not offered", of gloo and NCCL in torch 2.4 to 2.13."""
    words = (
        "not supported",
        "unsupported",
        "cannot use reduceop",
        "can't be cast to the desired output type",
        "invalid scalar type",
        "tensors must be contiguous",
    )
    return any(word in message.lower() for word in words)
