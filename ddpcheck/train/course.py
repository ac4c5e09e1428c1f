"""The course of a training: from the start, or from a checkpoint, to its end, or to a stop."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import msgspec

from ddpcheck.errors import ExitCode
from ddpcheck.target.builtin import SEED
from ddpcheck.train import randomness
from ddpcheck.train.checkpoint import Checkpoints
from ddpcheck.train.checkpoint_folder import CheckpointFolder
from ddpcheck.train.data import START, ShardedBatches
from ddpcheck.train.loop import NOTHING_YET, Alongside, train
from ddpcheck.train.manifest import Past, Position, Terms
from ddpcheck.train.parallel import Place
from ddpcheck.train.progress import Progress
from ddpcheck.train.stopping import StopRequest
from ddpcheck.train.together import EveryRankError, on_rank_zero
from ddpcheck.train.trainer import Trainer


@dataclass(frozen=True)
class Keeping:
    """How a training is kept.

    terms: which training it is. save_every: steps from one checkpoint to the next; 0: the weights
    alone are kept, at the end. resume: the checkpoint to go on from, or ''. command: what to call to
    go on, once this is stopped.
    """

    folder: CheckpointFolder
    terms: Terms
    save_every: int = 100
    resume: str = ""
    command: str = "ddpcheck train --resume"


def run_course(trainer: Trainer, place: Place, shares: ShardedBatches, keeping: Keeping) -> Past:
    """Train to the last step; all ranks must call this. Returns what is past then.

    Raises EveryRankError where a rank was asked to stop, once there is a checkpoint.
    """
    rank = place.everyone.rank
    checkpoints = Checkpoints(
        keeping.folder, keeping.terms, place, trainer, resumable=keeping.save_every > 0
    )
    randomness.seed(SEED + trainer.parallel.data.rank, place.device)
    checkpoints.require_shared()
    past, position = _beginning(checkpoints, keeping, rank)

    with StopRequest() as stop:

        def save(now: Past) -> None:
            with stop.unhurried():
                checkpoints.write(now, shares.position(now.step))

        batches = shares.iterate(
            position,
            workers=place.recipe.dataloader_workers,
            pin_memory=place.device.type == "cuda",
        )
        bar = Progress(trainer.steps, sys.stderr, perf_counter, past.step) if rank == 0 else None
        alongside = Alongside(save, keeping.save_every, stop.asked, bar)
        past = train(trainer, batches, alongside, past)
    if past.step < trainer.steps:
        raise EveryRankError(_stopped(past.step, keeping), ExitCode.INTERRUPTED)
    return past


def _beginning(checkpoints: Checkpoints, keeping: Keeping, rank: int) -> tuple[Past, Position]:
    if not keeping.resume:
        on_rank_zero(rank, keeping.folder.clear)
        return NOTHING_YET, START
    manifest = checkpoints.read(Path(keeping.resume))
    step = manifest.past.step
    if rank == 0:
        sys.stderr.write(
            f"ddpcheck: resumed after step {step} of {keeping.terms.steps}, from {keeping.resume}\n"
        )
    resumed_at = (*manifest.past.resumed_at, step)
    return msgspec.structs.replace(manifest.past, resumed_at=resumed_at), manifest.position


def _stopped(step: int, keeping: Keeping) -> str:
    kept = keeping.folder.named(step)
    told = f"stopped after step {step} of {keeping.terms.steps}, as asked by a signal; "
    if keeping.save_every:
        return f"{told}the checkpoint is {kept}; go on with: {keeping.command}"
    return f"{told}only weights were kept, in {kept}: --checkpoint-every 0 leaves nothing to resume"
