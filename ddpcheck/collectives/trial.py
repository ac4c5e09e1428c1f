"""Carry out one collective and compare every element with what it must be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _make_nccl_premul_sum

from ddpcheck.collectives.calls import Call
from ddpcheck.collectives.cases import Case
from ddpcheck.collectives.exact import (
    MOVED_PRIME,
    PERIOD,
    PREMUL_FACTOR,
    STALE,
    contribution,
    expected,
    inputs_of,
    moved,
    tolerance,
)
from ddpcheck.collectives.kinds import BY_NAME, Block, Kind, Seat
from ddpcheck.measures.wrong_elements import MOVE

# Inputs begin at another place in each case, so that what an earlier one left behind is wrong.
SALTS = 97


class Mismatch(NamedTuple):
    """The first wrong element of a case on this rank, and how many of its elements are."""

    place: int
    expected: float
    got: float
    wrong_elements: int


class Trial:
    """Carries out cases on one rank of a group, whose ranks in the world are ``members``.

    ``rank`` is the rank in that group; the group None is the world's.
    """

    def __init__(
        self,
        rank: int,
        members: Sequence[int],
        device: str,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self._rank = rank
        self.members = tuple(members)
        self._device = device
        self._group = group
        self._kept: dict[tuple[str, str], torch.Tensor] = {}
        self._turn = 0
        self.compared_elements = 0

    def first_mismatch(self, case: Case) -> Mismatch | None:
        """Carry out one case; return its first wrong element, or None when all are right.

        Raises what torch raises, which may be a refusal (see ``refusals``).
        """
        call = self.begin(case)
        for work in BY_NAME[case.kind].call(call):
            work.wait()
        return self.compare(case, call)

    def begin(self, case: Case) -> Call:
        """Return the call of a case, with inputs that differ from those of the case before."""
        self._turn += 1
        kind, seat = BY_NAME[case.kind], self._seat
        widths = [kind.width(case.size, self._rank, n) for n in range(kind.puts_in(seat))]
        got_widths = [self._width(kind, case.size, block) for block in kind.gets(seat)]
        put_in, got = self._placed(case, kind, widths, got_widths)
        return Call(
            put_in=put_in,
            got=got,
            put_in_widths=tuple(widths),
            got_widths=tuple(got_widths),
            rank=self._rank,
            members=self.members,
            root=seat.root,
            op=_torch_op(case),
            group=self._group,
            is_async=case.mode == "async",
        )

    def compare(self, case: Case, call: Call) -> Mismatch | None:
        """Return the first wrong element of what a call of this case gave to this rank."""
        blocks = BY_NAME[case.kind].gets(self._seat)
        if not blocks or not case.size:
            return None
        exact = torch.cat([self._wanted(case, block) for block in blocks])
        self.compared_elements += len(exact)
        got = _flat(call.got, len(exact))
        allowed = tolerance(case.op, got.dtype, len(self.members)) if case.op != MOVE else 0.0
        return _first_mismatch(got, exact, allowed)

    @property
    def _seat(self) -> Seat:
        world = len(self.members)
        return Seat(self._rank, world, self._turn % world)

    def _width(self, kind: Kind, size: int, block: Block) -> int:
        return kind.width(size, block.of or 0, block.number) if kind.is_uneven else size

    def _placed(
        self, case: Case, kind: Kind, widths: list[int], got_widths: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return input and output, in memory as the case says."""
        given = self._given(case, sum(widths))
        if kind.is_on_itself:
            both = laid_out(given if widths else self._stale(case, sum(got_widths)), case.memory)
            return both, both
        put_in = laid_out(given, case.memory)
        got = laid_out(self._stale(case, sum(got_widths)), case.memory)
        if case.memory != "in place":
            return put_in, got
        if len(widths) > len(got_widths):
            return put_in, put_in.split(widths)[self._rank]
        own = got.split(got_widths)[self._rank]
        own.copy_(put_in)
        return own, got

    def _given(self, case: Case, size: int) -> torch.Tensor:
        return repeated(as_dtype(self._put_in(case, self._rank, 0, size), case.dtype), size)

    def _stale(self, case: Case, size: int) -> torch.Tensor:
        stale = torch.full([1], STALE, dtype=torch.int64, device=self._device)
        return repeated(as_dtype(stale, case.dtype), size)

    def _put_in(self, case: Case, rank: int, start: int, size: int) -> torch.Tensor:
        """Return a part of what a rank puts in, one period at most: int64 [size or period]."""
        start += self._turn % SALTS
        if case.op == MOVE:
            return moved(rank, start, min(size, MOVED_PRIME)).to(self._device)
        return self._part(f"put in for {inputs_of(case.op)}", case.op, start, size)

    def _wanted(self, case: Case, block: Block) -> torch.Tensor:
        if block.of is not None:
            kind, seat = BY_NAME[case.kind], Seat(block.of, len(self.members), self._seat.root)
            widths = [kind.width(case.size, block.of, n) for n in range(kind.puts_in(seat))]
            start, size = (0, *accumulate(widths))[block.number], widths[block.number]
            wanted = self._put_in(case, block.of, start, size)
        else:
            start, size = self._turn % SALTS + block.number * case.size, case.size
            wanted = self._part("expected", case.op, start, size)
        is_mean = case.op == "AVG" and getattr(torch, case.dtype).is_floating_point
        return repeated(wanted if is_mean else as_dtype(wanted, case.dtype), size)

    def _part(self, what: str, op: str, start: int, size: int) -> torch.Tensor:
        """Return a part of what this rank puts into a reduction, or of its result.

        It is of one period at most: int64 [size or period], or float64.
        """
        is_result, world = what == "expected", len(self.members)
        period = PERIOD if is_result else PERIOD * world
        start %= period
        end = start + min(size, period)
        key = (what, op if is_result else "")
        if key not in self._kept or len(self._kept[key]) < end:
            if is_result:
                whole = expected(op, world, end)
            else:
                whole = contribution(op, self._rank, world, end)
            self._kept[key] = whole.to(self._device)
        return self._kept[key][start:end]


def repeated(values: torch.Tensor, size: int) -> torch.Tensor:
    """Return new memory, [size], that holds the values again and again.

    They are repeated where they are, in their dtype: a large message is made without another of
    its size, nor on the host of its GPU, which took most of a sweep's time.
    """
    return values.repeat(-(-size // max(len(values), 1)))[:size]


def as_dtype(values: torch.Tensor, name: str) -> torch.Tensor:
    """Return whole numbers from 0 to 127 in a dtype; they are the bits of an 8-bit float."""
    dtype: torch.dtype = getattr(torch, name)
    if name.startswith("float8"):
        return values.to(torch.uint8).view(dtype)
    return values % 2 == 1 if dtype is torch.bool else values.to(dtype)


def _torch_op(case: Case) -> Any:
    if case.op == "PREMUL_SUM":
        return _make_nccl_premul_sum(float(PREMUL_FACTOR))
    return None if case.op == MOVE else getattr(dist.ReduceOp, case.op)


def laid_out(values: torch.Tensor, memory: str) -> torch.Tensor:
    """Return the values, [size], in that place of memory."""
    if memory == "unaligned":
        return torch.cat([values[:1], values])[1:] if len(values) else values
    if memory != "transposed":
        return values
    # Dense, but with strides (1, half): backends must not reduce in row order. An odd size gets
    # its first value twice.
    half = -(-len(values) // 2)
    return torch.cat([values[: 2 * half - len(values)], values]).reshape(2, half).t()


def _flat(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return the last ``size`` elements, [size], whatever the place in memory."""
    return tensor if tensor.dim() == 1 else tensor.t().reshape(-1)[-size:]


def _first_mismatch(got: torch.Tensor, exact: torch.Tensor, allowed: float) -> Mismatch | None:
    if got.dtype.is_floating_point and got.dtype.itemsize == 1:
        got, exact = got.view(torch.uint8), exact.view(torch.uint8)
    if exact.dtype == got.dtype and torch.equal(got, exact):
        return None
    wide = torch.complex128 if got.is_complex() else torch.float64
    bad = (got.to(wide) - exact.to(wide)).abs().le(allowed).logical_not()
    count = int(bad.sum())
    if not count:
        return None
    index = int(bad.nonzero()[0])
    return Mismatch(index, _number(exact[index]), _number(got[index]), count)


def _number(element: torch.Tensor) -> float:
    return float(element.real if element.is_complex() else element)
