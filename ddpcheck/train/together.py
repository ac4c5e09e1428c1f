"""What all ranks do, or fail at, together."""

from __future__ import annotations

from collections.abc import Callable

import torch.distributed as dist

from ddpcheck.errors import DdpcheckError, ExitCode


class EveryRankError(DdpcheckError):
    """An error that every rank raises alike, so that rank 0 alone has to tell."""

    def __init__(self, text: str, exit_code: ExitCode) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def on_every_rank(world_size: int, action: Callable[[], object]) -> None:
    """Let every rank act for itself; where it fails on one, every rank raises EveryRankError.

    Else those on which it did not fail would go on, and wait for the others.
    """
    own: tuple[str, ExitCode] | None = None
    try:
        action()
    except DdpcheckError as error:
        own = (str(error), error.exit_code)
    told: list[tuple[str, ExitCode] | None] = [own]
    if world_size > 1:
        told = [None] * world_size
        dist.all_gather_object(told, own)
    for rank, failure in enumerate(told):
        if failure is not None:
            raise EveryRankError(f"rank {rank}: {failure[0]}", failure[1])


def on_rank_zero(rank: int, action: Callable[[], object]) -> None:
    """Let rank 0 act while the others wait; where it fails, every rank raises EveryRankError.

    A bare barrier after the action would leave the others waiting for a rank 0 that
    has given up.
    """
    told: list[tuple[str, ExitCode] | None] = [None]
    if rank == 0:
        try:
            action()
        except DdpcheckError as error:
            told = [(str(error), error.exit_code)]
    dist.broadcast_object_list(told, src=0)
    if told[0] is not None:
        raise EveryRankError(*told[0])
