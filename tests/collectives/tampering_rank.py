"""One gloo rank that tries each collective as it is, and as a fault would leave it on one rank.

    python tampering_rank.py RANK WORLD_SIZE VICTIM STORE_FILE RESULT_FILE

Writes a JSON object: by fault and collective, what ``compared`` gave on this rank.
"""

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

from ddpcheck.check import Profile
from ddpcheck.collectives import huge, kinds
from ddpcheck.collectives.calls import Call, Works
from ddpcheck.collectives.cases import Case, cases, one_of_each
from ddpcheck.collectives.comparison import Tally
from ddpcheck.collectives.kinds import Kind
from ddpcheck.collectives.trial import Trial

# Three parts, the last one short.
LARGE = 2 * huge.PART_ELEMENTS + 4099
Harm = Callable[[Call, torch.Tensor], None]


def flip_one(call: Call, _: torch.Tensor) -> None:
    if call.got.numel():
        index, item = call.got.numel() // 2, call.got.element_size()
        highest_byte = flat(call).view(torch.uint8)[index * item :][item - 1 : item]
        highest_byte ^= 1 if call.got.dtype is torch.bool else 0x20


def keep_all(call: Call, before: torch.Tensor) -> None:
    call.got.copy_(before)


def lose_tail(call: Call, before: torch.Tensor) -> None:
    if call.got.numel():
        flat(call)[-1:] = before.t().reshape(-1)[-1:] if before.dim() > 1 else before[-1:]


def swap_blocks(call: Call, _: torch.Tensor) -> None:
    if len(call.got_widths) < 2:
        return
    blocks = [block.clone() for block in call.got_blocks]
    if len(set(call.got_widths)) == 1:
        for block, other in zip(call.got_blocks, reversed(blocks), strict=True):
            block.copy_(other)


def flat(call: Call) -> torch.Tensor:
    """Return a view of the output, [elements], in the order in which it is compared."""
    return call.got if call.got.dim() == 1 else call.got.t().reshape(-1)


HARMS: dict[str, Harm] = {
    "wrong element": flip_one,
    "stale buffer": keep_all,
    "lost tail": lose_tail,
    "swapped ranks": swap_blocks,
}


@contextmanager
def harmed(kind: Kind, harm: Harm, turns: range) -> Generator[None]:
    """Let the calls of a kind in these turns leave what a faulty one would."""
    turn = iter(range(sys.maxsize))

    def call_and_harm(call: Call) -> Works:
        before = call.got.clone()
        for work in kind.call(call):
            work.wait()
        if next(turn) in turns:
            harm(call, before)
        return ()

    kinds.BY_NAME[kind.name] = replace(kind, call=call_and_harm)
    try:
        yield
    finally:
        kinds.BY_NAME[kind.name] = kind


def tried(rank: int, world: int, todo: list[Case]) -> dict[str, object]:
    tally = Tally(Trial(rank, range(world), "cpu"))
    for case in todo:
        tally.add(case)
    told: dict[str, object] = msgspec.to_builtins(tally.facts("gloo"))
    return told


def main(rank: int, world: int, victim: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for kind in kinds.KINDS:
        own = [case for case in cases(Profile.QUICK, world) if case.kind == kind.name]
        found[f"healthy/{kind.name}"] = tried(rank, world, own)
        for name, harm in HARMS.items():
            turns = range(sys.maxsize if rank == victim else 0)
            with harmed(kind, harm, turns):
                found[f"{name}/{kind.name}"] = tried(rank, world, own)
        same = [case for case in one_of_each(world) if case.kind == kind.name]
        # The root goes around from rank 1 on: in this turn it is the last rank.
        once = range(world - 2, world - 1) if world > 2 else range(2, 3)
        with harmed(kind, flip_one, once if rank == victim else range(0)):
            found[f"one turn/{kind.name}"] = tried(rank, world, same * 5)
    for name in ("healthy", "lost tail"):
        with tail_lost(7 if name == "lost tail" and rank == victim else 0):
            large = huge.compared_large(huge.Seat(rank, world, "cpu", "gloo"), LARGE)
        found[f"{name}/large"] = msgspec.to_builtins(large)
    return found


@contextmanager
def tail_lost(count: int) -> Generator[None]:
    """Let the large messages end as if so many elements had never arrived."""
    kept = dict(huge.KINDS)

    def harmed_call(carry_out: Callable[[torch.Tensor], None]) -> Callable[[torch.Tensor], None]:
        def call(buffer: torch.Tensor) -> None:
            before = buffer.clone()
            carry_out(buffer)
            start = len(buffer) - count
            buffer[start:] = before[start:]

        return call

    huge.KINDS.update({name: (op, harmed_call(call)) for name, (op, call) in kept.items()})
    try:
        yield
    finally:
        huge.KINDS.update(kept)


if __name__ == "__main__":
    rank, world, victim = (int(word) for word in sys.argv[1:4])
    store = FileStore(sys.argv[4], world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    Path(sys.argv[5]).write_text(json.dumps(main(rank, world, victim)))
    dist.destroy_process_group()
