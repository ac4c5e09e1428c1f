"""How each collective is called: blocks in, blocks out, a work to wait for or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

Works = Sequence[Any]  # torch's works; empty when the call has waited


def _either(new: str, old: str) -> Callable[..., Any]:
    """Return a function of torch.distributed; torch 2.13 has new names, and warns of the old.

    It is looked up at each call: what a script puts in its place is what training uses.
    """
    found: Callable[..., Any] = getattr(dist, new, None) or getattr(dist, old)
    return found


@dataclass(frozen=True)
class Call:
    """What one rank hands to a collective.

    ``put_in`` and ``got`` are [elements]; ``put_in_blocks`` and ``got_blocks`` are the same memory
    cut into blocks. ``root`` and the neighbours are ranks of the world, as torch asks for them.
    """

    put_in: torch.Tensor
    got: torch.Tensor
    put_in_widths: tuple[int, ...]
    got_widths: tuple[int, ...]
    rank: int
    members: tuple[int, ...]
    root: int
    op: Any
    group: dist.ProcessGroup | None
    is_async: bool

    @property
    def put_in_blocks(self) -> list[torch.Tensor]:
        """Return what this rank puts in, block by block."""
        return list(self.put_in.split(self.put_in_widths))

    @property
    def got_blocks(self) -> list[torch.Tensor]:
        """Return where what it gets is written, block by block."""
        return list(self.got.split(self.got_widths))

    @property
    def root_rank(self) -> int:
        """Return the root's rank in the world."""
        return self.members[self.root]

    @property
    def is_root(self) -> bool:
        """Return whether this rank is the root."""
        return self.rank == self.root

    @property
    def next_rank(self) -> int:
        """Return the rank in the world of who comes next in the ring."""
        return self.members[(self.rank + 1) % len(self.members)]

    @property
    def previous_rank(self) -> int:
        """Return the rank in the world of who comes before in the ring."""
        return self.members[self.rank - 1]


def all_reduce(call: Call) -> Works:
    """Reduce in place, on all ranks."""
    return _works(dist.all_reduce(call.got, call.op, call.group, call.is_async))


def all_reduce_coalesced(call: Call) -> Works:
    """Reduce two tensors in place in one go, on all ranks."""
    with distributed_c10d._coalescing_manager(call.group, async_ops=True) as both:
        for block in call.got_blocks:
            dist.all_reduce(block, call.op, call.group)
    return [both] if call.is_async else _waited([both])


def reduce(call: Call) -> Works:
    """Reduce in place, to the root; what the others hold afterwards is not defined."""
    return _works(dist.reduce(call.got, call.root_rank, call.op, call.group, call.is_async))


def reduce_scatter(call: Call) -> Works:
    """Reduce a list of blocks; each rank gets its own."""
    into, given = call.got, call.put_in_blocks
    return _works(dist.reduce_scatter(into, given, call.op, call.group, call.is_async))


def reduce_scatter_tensor(call: Call) -> Works:
    """Reduce the blocks of one tensor; each rank gets its own."""
    into, given = call.got, call.put_in
    return _works(
        _either("reduce_scatter_single", "reduce_scatter_tensor")(
            into, given, call.op, call.group, call.is_async
        )
    )


def broadcast(call: Call) -> Works:
    """Send the root's tensor to all."""
    return _works(dist.broadcast(call.got, call.root_rank, call.group, call.is_async))


def all_gather(call: Call) -> Works:
    """Gather everybody's tensor into a list, on all ranks."""
    return _works(dist.all_gather(call.got_blocks, call.put_in, call.group, call.is_async))


def all_gather_into_tensor(call: Call) -> Works:
    """Gather everybody's tensor into one, on all ranks."""
    return _works(
        _either("all_gather_single", "all_gather_into_tensor")(
            call.got, call.put_in, call.group, call.is_async
        )
    )


def gather(call: Call) -> Works:
    """Gather everybody's tensor into a list, on the root."""
    into = call.got_blocks if call.is_root else None
    return _works(dist.gather(call.put_in, into, call.root_rank, call.group, call.is_async))


def scatter(call: Call) -> Works:
    """Send each rank its block of the root's."""
    given = call.put_in_blocks if call.is_root else None
    return _works(dist.scatter(call.got, given, call.root_rank, call.group, call.is_async))


def all_to_all(call: Call) -> Works:
    """Send each rank its block of everybody's list."""
    return _works(dist.all_to_all(call.got_blocks, call.put_in_blocks, call.group, call.is_async))


def all_to_all_single(call: Call) -> Works:
    """Send each rank its block of everybody's tensor; the blocks may differ in size."""
    work = dist.all_to_all_single(
        call.got,
        call.put_in,
        list(call.got_widths),
        list(call.put_in_widths),
        group=call.group,
        async_op=call.is_async,
    )
    return _works(work)


def send_recv(call: Call) -> Works:
    """Send to the next rank and receive from the one before, once around the ring."""
    send, receive = (dist.isend, dist.irecv) if call.is_async else (dist.send, dist.recv)
    # Two ranks that both send first wait for ever where messages are not buffered, and NCCL does
    # what it is asked in this order even when it is asked for all at once.
    if call.rank % 2 == 0:
        works = [
            send(call.put_in, call.next_rank, call.group),
            receive(call.got, call.previous_rank, call.group),
        ]
    else:
        works = [
            receive(call.got, call.previous_rank, call.group),
            send(call.put_in, call.next_rank, call.group),
        ]
    return works if call.is_async else ()


def batched_ring(call: Call) -> Works:
    """Send to the next rank and receive from the one before, in one batch."""
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, call.put_in, call.next_rank, call.group),
            dist.P2POp(dist.irecv, call.got, call.previous_rank, call.group),
        ]
    )
    return works if call.is_async else _waited(works)


def batch_isend_irecv(call: Call) -> Works:
    """Send a block each way around the ring, and receive one each way, in one batch."""
    (onward, back), (from_before, from_after) = call.put_in_blocks, call.got_blocks
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, onward, call.next_rank, call.group),
            dist.P2POp(dist.isend, back, call.previous_rank, call.group),
            dist.P2POp(dist.irecv, from_before, call.previous_rank, call.group),
            dist.P2POp(dist.irecv, from_after, call.next_rank, call.group),
        ]
    )
    return works if call.is_async else _waited(works)


def _works(work: Any) -> Works:
    return () if work is None else (work,)


def _waited(works: Works) -> Works:
    for work in works:
        work.wait()
    return ()
