"""Collectives of more elements than 32 bits can count."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import torch
import torch.distributed as dist

from ddpcheck.check import Context, Skip
from ddpcheck.collectives.agreement import Agreement
from ddpcheck.collectives.comparison import is_refusal
from ddpcheck.measures.words import size
from ddpcheck.measures.wrong_elements import MOVE, Compared, Wrong

# One byte each: more than a signed 32-bit number can count, by a little that is no round number.
ELEMENTS = 2**31 + 4099
# What is written and compared at a time.
PART_ELEMENTS = 2**22
# Values repeat after a prime, and so are others where an index lost its high bits. To copy them
# from a tile takes a tenth of the time that it takes to compute them.
PERIOD = 251
# Backends and what is compared need memory of their own.
ROOM_RATIO = 3


def _reduce(buffer: torch.Tensor) -> None:
    dist.all_reduce(buffer)


def _broadcast(buffer: torch.Tensor) -> None:
    dist.broadcast(buffer, 0)


# The op of each collective, and how it is carried out. On a GPU, comparing waits for it.
KINDS: dict[str, tuple[str, Callable[[torch.Tensor], None]]] = {
    "all_reduce": ("SUM", _reduce),
    "broadcast": (MOVE, _broadcast),
}


class Seat(NamedTuple):
    """Who compares: a rank of so many, on a device, through a backend."""

    rank: int
    world_size: int
    device: str
    backend: str


def compared_huge(ctx: Context, agreed: Agreement, free_bytes: int) -> Compared:
    """Return what came of an all-reduce and a broadcast of 2 GiB, each in place.

    ``free_bytes`` are those of this rank's machine. Raises Skip on all ranks alike where one of
    them lacks the memory.
    """
    needed = ROOM_RATIO * ELEMENTS
    if _room_of_all(ctx, agreed, free_bytes) < needed:
        raise Skip(f"{size(ELEMENTS)} in one message need {size(needed)} of memory a rank")
    facts = compared_large(Seat(ctx.rank, ctx.world_size, ctx.device, ctx.backend), ELEMENTS)
    if ctx.on_gpu:
        torch.cuda.empty_cache()  # what torch keeps NCCL cannot use
    return facts


def compared_large(seat: Seat, elements: int) -> Compared:
    """Return what came of messages of so many bytes."""
    buffer = torch.empty(elements, dtype=torch.uint8, device=seat.device)
    tile = torch.arange(PERIOD, device=seat.device).add(1).to(torch.uint8)
    tile = tile.repeat(PART_ELEMENTS // PERIOD + 2)
    wrong: list[Wrong] = []
    refused: dict[str, tuple[str, ...]] = {}
    for kind, (op, carry_out) in KINDS.items():
        for number, (start, part) in enumerate(_parts(buffer)):
            if _owns(number, kind, seat):
                part.copy_(_pattern(tile, start, len(part)))
            else:
                part.zero_()
        try:
            carry_out(buffer)
        except RuntimeError as error:
            if not is_refusal(str(error)):
                raise
            refused[str(error)] = (*refused.get(str(error), ()), kind)
            continue
        wrong += _wrong(buffer, tile, kind, op)
    return Compared(
        backend=seat.backend,
        cases=len(KINDS) - sum(map(len, refused.values())),
        elements=elements * (len(KINDS) - sum(map(len, refused.values()))),
        wrong_cases={each.kind: 1 for each in wrong},
        wrong=tuple(wrong),
        refused=refused,
    )


def _room_of_all(ctx: Context, agreed: Agreement, free_bytes: int) -> int:
    """Return the bytes that the rank with the least has for itself."""
    # Containers share their kernel's memory, whatever processes they see.
    kernel = ctx.machine.partition("/")[0]
    room = int(torch.cuda.mem_get_info(ctx.device)[0]) if ctx.on_gpu else free_bytes
    told = agreed.told(f"{kernel} {room}", ctx.rank, ctx.world_size)
    rooms = [text.decode().rpartition(" ") for text in told()]
    machines = [machine for machine, _, _ in rooms]
    sharing = 1 if ctx.on_gpu else max(map(machines.count, machines))
    return min(int(room) for _, _, room in rooms) // sharing


def _owns(number: int, kind: str, seat: Seat) -> bool:
    """Return whether a rank has the values of a part; the others put zeros in, so any sum fits."""
    return seat.rank == (number % seat.world_size if kind == "all_reduce" else 0)


def _wrong(buffer: torch.Tensor, tile: torch.Tensor, kind: str, op: str) -> list[Wrong]:
    """Return the first wrong element, if there is one, and how many there are."""
    first: Wrong | None = None
    count = 0
    for start, part in _parts(buffer):
        exact = _pattern(tile, start, len(part))
        if torch.equal(part, exact):
            continue
        bad = (part != exact).nonzero()
        count += len(bad)
        if first is None:
            place = int(bad[0])
            expected, got = float(exact[place]), float(part[place])
            what = (kind, "uint8", op, len(buffer), "in place", "blocking")
            first = Wrong(*what, index=start + place, expected=expected, got=got, wrong_elements=0)
    return [] if first is None else [msgspec.structs.replace(first, wrong_elements=count)]


def _parts(buffer: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    for start in range(0, len(buffer), PART_ELEMENTS):
        yield start, buffer[start : start + PART_ELEMENTS]


def _pattern(tile: torch.Tensor, start: int, count: int) -> torch.Tensor:
    return tile[start % PERIOD : start % PERIOD + count]
