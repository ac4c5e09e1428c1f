"""The built-in target, on a rank that counts what all its checks ask of the process group.

It prints a line ``work {...}`` when the rehearsal begins, which is after the stage collectives, and one
at each of its forward passes and optimizer steps. What DDP reduces itself goes past Python, and is not
counted: that is the model's size in each pass.

How often a collective is timed depends on the machine, up to a bound: here it is that often on any.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from ddpcheck.collectives import pairs, sweep
from ddpcheck.target.builtin import minigpt
from ddpcheck.target.target import Target
from ddpcheck.watch.replaced import Replaced

# What torch.distributed's functions end in, one call for each that a rank makes.
CALLS = (
    *("allreduce", "allreduce_coalesced", "broadcast", "reduce", "barrier", "send", "recv"),
    *("allgather", "_allgather_base", "all_gather_single", "allgather_coalesced", "gather"),
    *("reduce_scatter", "_reduce_scatter_base", "reduce_scatter_single", "scatter"),
    *("alltoall", "alltoall_base", "all_to_all_single", "monitored_barrier"),
)
WORK = {"collectives": 0, "bytes": 0, "passes": 0, "steps": 0}


def factory() -> Target:
    told()
    target = minigpt("", dist.get_rank(), dist.get_world_size())
    assert target.optimizer is not None
    target.optimizer.register_step_post_hook(stepped)
    return replace(target, loss=counting(target.loss))


def counting(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def counted_loss(*given: Any) -> torch.Tensor:
        count("passes")
        return loss(*given)

    return counted_loss


def stepped(*_: Any) -> None:
    count("steps")


def count(what: str) -> None:
    WORK[what] += 1
    told()


def told() -> None:
    # In one piece: both ranks write to one file.
    sys.stdout.write(f"work {json.dumps({'rank': dist.get_rank(), **WORK})}\n")
    sys.stdout.flush()


def count_call(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    WORK["collectives"] += 1
    WORK["bytes"] += sum(each.nbytes for each in tensors_in([*arguments[1:], *named.values()]))


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    for each in values:
        if isinstance(each, torch.Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from tensors_in(each)


REPLACED = Replaced()
for name in CALLS:
    if hasattr(dist.ProcessGroup, name):
        REPLACED.tell_before(dist.ProcessGroup, name, count_call)
for profile, pace in sweep.PACES.items():
    sweep.PACES[profile] = pace._replace(least=pace.most)
pairs.LONGEST_S = 1e6
