"""The collectives that training uses: who puts in what, and who gets what.

One table serves the comparison of values and the timing: a new collective is one row of it, and
one function in ``calls``. A rank puts in, and gets, a number of blocks. All blocks of a case have
the same size, but for those of an uneven all-to-all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ddpcheck.collectives import calls
from ddpcheck.collectives.calls import Call, Works
from ddpcheck.measures.wrong_elements import MOVE


@dataclass(frozen=True)
class Seat:
    """A rank's place in a group: ranks count from 0 in the group; ``root`` is one of them."""

    rank: int
    world_size: int
    root: int = 0

    @property
    def everyone(self) -> range:
        """Return all ranks of the group."""
        return range(self.world_size)

    @property
    def is_root(self) -> bool:
        """Return whether this is the root's seat."""
        return self.rank == self.root


@dataclass(frozen=True)
class Block:
    """One block: whose input it is part of (None: everybody's, reduced), and which part."""

    of: int | None
    number: int


# Where a collective may have its memory. "in place": its output or input within the other one.
ANYWHERE = ("contiguous", "unaligned")
WITHIN = (*ANYWHERE, "in place")
# What leaves its result in the one tensor it works on takes any dense one.
DENSE = (*ANYWHERE, "transposed")


@dataclass(frozen=True)
class Kind:
    """One collective: how many blocks a rank puts in, which ones it gets, how it is called.

    ``is_pairwise``: torch makes it of sends and receives for NCCL, whose refusal of a dtype comes in
    the middle of them and leaves NCCL waiting for the rest. Only usual dtypes are tried there.
    """

    name: str
    call: Callable[[Call], Works]
    puts_in: Callable[[Seat], int]
    gets: Callable[[Seat], list[Block]]
    memories: tuple[str, ...] = ANYWHERE
    is_on_itself: bool = False
    reduces: bool = False
    is_pairwise: bool = False
    is_uneven: bool = False
    least_ranks: int = 1

    @property
    def plain_op(self) -> str:
        """Return the op that every backend offers: a sum, or none where nothing is reduced."""
        return "SUM" if self.reduces else MOVE

    def width(self, size: int, source: int, number: int) -> int:
        """Return the elements of one block of a case of that size."""
        return (0, size + size // 2, size)[(source + number) % 3] if self.is_uneven else size


def _one(_: Seat) -> int:
    return 1


def _two(_: Seat) -> int:
    return 2


def _one_each(seat: Seat) -> int:
    return seat.world_size


def _roots_one(seat: Seat) -> int:
    return int(seat.is_root)


def _roots_one_each(seat: Seat) -> int:
    return seat.world_size if seat.is_root else 0


def _all_reduced(_: Seat) -> list[Block]:
    return [Block(None, 0)]


def _all_reduced_twice(_: Seat) -> list[Block]:
    return [Block(None, 0), Block(None, 1)]


def _reduced_for_root(seat: Seat) -> list[Block]:
    return [Block(None, 0)] if seat.is_root else []


def _own_reduced(seat: Seat) -> list[Block]:
    return [Block(None, seat.rank)]


def _roots(seat: Seat) -> list[Block]:
    return [Block(seat.root, 0)]


def _own_of_roots(seat: Seat) -> list[Block]:
    return [Block(seat.root, seat.rank)]


def _everyones(seat: Seat) -> list[Block]:
    return [Block(rank, 0) for rank in seat.everyone]


def _everyones_for_root(seat: Seat) -> list[Block]:
    return _everyones(seat) if seat.is_root else []


def _own_of_everyones(seat: Seat) -> list[Block]:
    return [Block(rank, seat.rank) for rank in seat.everyone]


def _from_before(seat: Seat) -> list[Block]:
    return [Block((seat.rank - 1) % seat.world_size, 0)]


def _from_both_sides(seat: Seat) -> list[Block]:
    return [*_from_before(seat), Block((seat.rank + 1) % seat.world_size, 1)]


KINDS = (
    Kind(
        "all_reduce", calls.all_reduce, _one, _all_reduced, DENSE, is_on_itself=True, reduces=True
    ),
    Kind(
        "all_reduce coalesced",
        calls.all_reduce_coalesced,
        _two,
        _all_reduced_twice,
        ANYWHERE,
        is_on_itself=True,
        reduces=True,
    ),
    Kind("reduce", calls.reduce, _one, _reduced_for_root, DENSE, is_on_itself=True, reduces=True),
    Kind("reduce_scatter", calls.reduce_scatter, _one_each, _own_reduced, reduces=True),
    Kind(
        "reduce_scatter_tensor",
        calls.reduce_scatter_tensor,
        _one_each,
        _own_reduced,
        WITHIN,
        reduces=True,
    ),
    Kind("broadcast", calls.broadcast, _roots_one, _roots, DENSE, is_on_itself=True),
    Kind("all_gather", calls.all_gather, _one, _everyones),
    Kind("all_gather_into_tensor", calls.all_gather_into_tensor, _one, _everyones, WITHIN),
    Kind("gather", calls.gather, _one, _everyones_for_root, is_pairwise=True),
    Kind("scatter", calls.scatter, _roots_one_each, _own_of_roots, is_pairwise=True),
    Kind("all_to_all", calls.all_to_all, _one_each, _own_of_everyones, is_pairwise=True),
    Kind(
        "all_to_all_single",
        calls.all_to_all_single,
        _one_each,
        _own_of_everyones,
        is_pairwise=True,
    ),
    Kind(
        "all_to_all_single uneven",
        calls.all_to_all_single,
        _one_each,
        _own_of_everyones,
        is_pairwise=True,
        is_uneven=True,
    ),
    Kind("send_recv", calls.send_recv, _one, _from_before, least_ranks=2),
    Kind("batch_isend_irecv ring", calls.batched_ring, _one, _from_before, least_ranks=2),
    Kind("batch_isend_irecv", calls.batch_isend_irecv, _two, _from_both_sides, least_ranks=2),
)
BY_NAME = {kind.name: kind for kind in KINDS}
