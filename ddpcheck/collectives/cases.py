"""Which collectives are tried: every kind, dtype and op, in sizes and ways that take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, product
from typing import NamedTuple

from ddpcheck.check import Profile
from ddpcheck.collectives.kinds import KINDS, Kind, Seat
from ddpcheck.measures.wrong_elements import MOVE

REDUCED_DTYPES = (
    *("float32", "float64", "float16", "bfloat16"),
    *("int8", "int32", "int64", "uint8"),
)
PLAIN_DTYPES = (*REDUCED_DTYPES, "bool")
MOVED_DTYPES = (*PLAIN_DTYPES, "complex64", "float8_e4m3fn", "float8_e5m2")
FEW_DTYPES = ("float32", "bfloat16", "int64", "uint8")
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")

# Ops with kernels of their own: the others differ by one instruction.
ALONE_OPS = ("AVG", "PREMUL_SUM", "MAX")

SMALL_SIZES = (0, 1, 7, 1023)
MEDIUM_SIZE = 2**14 - 5
# By whether it is on GPUs: gloo splits messages of more than 1 MiB, and NCCL takes its bulk
# protocol for 2 MiB (both of float32).
LARGE_SIZES = {False: 2**18 + 3, True: 2**19 + 3}
HUGE_SIZE = 2**26 + 3
MODES = ("blocking", "async")


class Case(NamedTuple):
    """One collective: by name, on blocks of ``size`` elements."""

    kind: str
    dtype: str
    op: str
    size: int
    memory: str
    mode: str


def cases(profile: Profile, world_size: int, *, on_gpu: bool = False) -> Iterator[Case]:
    """Yield the cases of a profile.

    Sizes and ways take turns, so that each kind meets them all. Quick has each op in float32, and
    few other dtypes; standard all that an all-reduce may have, each op of the others in a float
    and an integer, and large sizes; full all combinations.
    """
    for kind in KINDS:
        yield from _cases_of(kind, profile, world_size, LARGE_SIZES[on_gpu])


def one_of_each(world_size: int) -> list[Case]:
    """Return one case of each kind: float32, in memory of 64 KiB at most."""
    return [
        Case(
            kind=kind.name,
            dtype="float32",
            op=kind.plain_op,
            size=-(-MEDIUM_SIZE // most_blocks(kind, world_size)),
            memory="contiguous",
            mode="blocking",
        )
        for kind in KINDS
    ]


def _cases_of(kind: Kind, profile: Profile, world_size: int, large_size: int) -> Iterator[Case]:
    ways = list(product(kind.memories, MODES))
    turns = cycle(ways)
    blocks = most_blocks(kind, world_size)
    for number, (dtype, op) in enumerate(_contents(kind, profile)):
        # Large is what the blocks of a rank have together: their number may grow with the world.
        sizes = _large_sizes(kind, profile, dtype, op, large_size)
        large = [-(-size // blocks) for size in sizes]
        for size in (*_small_sizes(profile, number, dtype, op), *large):
            chosen = ways if profile is Profile.FULL else [next(turns)]
            yield from (Case(kind.name, dtype, op, size, *way) for way in chosen)


def _contents(kind: Kind, profile: Profile) -> Sequence[tuple[str, str]]:
    """Return each dtype and op in which a kind is tried."""
    few = profile is Profile.QUICK
    if not kind.reduces:
        every = PLAIN_DTYPES if kind.is_pairwise else MOVED_DTYPES
        return [(dtype, MOVE) for dtype in (FEW_DTYPES if few else every)]
    dtypes = FEW_DTYPES if few else REDUCED_DTYPES
    if profile is Profile.FULL or (kind.name == "all_reduce" and not few):
        return list(product(dtypes, OPS))
    in_all_ops = FEW_DTYPES[:1] if few else ("float32", "int32")
    return [(dtype, op) for dtype in dtypes for op in OPS if op == "SUM" or dtype in in_all_ops]


def _small_sizes(profile: Profile, number: int, dtype: str, op: str) -> Sequence[int]:
    every = profile is Profile.FULL or _is_plain(dtype, op)
    return SMALL_SIZES if every else [SMALL_SIZES[number % len(SMALL_SIZES)]]


def _is_plain(dtype: str, op: str) -> bool:
    return dtype == "float32" and op in ("SUM", MOVE)


def _large_sizes(
    kind: Kind, profile: Profile, dtype: str, op: str, large_size: int
) -> Sequence[int]:
    if profile is Profile.QUICK:
        return ()
    is_plain = _is_plain(dtype, op)
    if profile is Profile.FULL:
        return (large_size, HUGE_SIZE) if is_plain else (large_size,)
    is_alone = op == "SUM" or (dtype == "float32" and op in ALONE_OPS)
    is_tried = is_plain or (kind.name == "all_reduce" and is_alone)
    return (large_size,) if is_tried else ()


def most_blocks(kind: Kind, world_size: int) -> int:
    """Return the blocks that a rank puts in, or those that it gets, whichever are more."""
    root = Seat(0, world_size)
    return max(kind.puts_in(root), len(kind.gets(root)), 1)
