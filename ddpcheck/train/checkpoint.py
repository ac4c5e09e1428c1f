"""The checkpoint: what a training is made of, written by all ranks at once, and read back.

Its folder has what torch.distributed.checkpoint writes: weights and optimizer state, each rank's
own part of it, under the names of the bare model. Any strategy on any number of ranks reads the
parts that it needs. Beside that stand ``consolidated.pt``, the weights in full for who wants to use
the model; ``rank-N.pt``, the random number generators; and ``manifest.json``, all the rest.
"""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from ddpcheck.errors import ExitCode, UsageError
from ddpcheck.train import randomness
from ddpcheck.train.checkpoint_folder import (
    CheckpointFolder,
    read_manifest,
    write_durably,
    writing,
)
from ddpcheck.train.dtensor import weight
from ddpcheck.train.manifest import Manifest, Past, Position, Terms
from ddpcheck.train.parallel import Parallel, Place
from ddpcheck.train.together import EveryRankError, on_every_rank, on_rank_zero
from ddpcheck.train.trainer import Trainer

CONSOLIDATED = "consolidated.pt"
# Characters: of what torch gives as a reason, which may list every name of a model.
LONGEST_REASON = 300


@dataclass(frozen=True)
class Checkpoints:
    """Writes checkpoints of a training, and reads them; all ranks must do so together.

    folder: the same for all ranks, on a file system that all hosts share, unless ``resumable`` is
    False: then rank 0 alone writes the weights alone.
    """

    folder: CheckpointFolder
    terms: Terms
    place: Place
    trainer: Trainer
    resumable: bool = True

    def require_shared(self) -> None:
        """Raise EveryRankError unless all ranks see the folder that rank 0 sees."""
        if self.resumable:
            on_rank_zero(self.place.everyone.rank, lambda: self.folder.begin(0))
            folder = self.folder.draft(0)
            on_every_rank(self.place.everyone.size, lambda: self._require_rank_zeros(folder))

    def write(self, past: Past, position: Position) -> None:
        """Write all; raises EveryRankError, and leaves the last one, where that cannot be done."""
        rank, world_size = self.place.everyone.rank, self.place.everyone.size
        draft = self.folder.draft(past.step)
        on_rank_zero(rank, lambda: self.folder.begin(past.step))
        if self.resumable:
            on_every_rank(world_size, lambda: self._write_generators(draft))
            # Of a disk that is full, torch says that it is at an unexpected position.
            advice = "see whether the disk is full, or choose another --checkpoint-dir"
            with _told_alike(f"cannot write {draft}", advice):
                save(held(self.trainer.parallel), storage_writer=FileSystemWriter(draft))
        weights = self.trainer.parallel.collect(weight)
        manifest = self._manifest(past, position)

        def complete() -> None:
            consolidated = {"model": weights, "step": past.step, "epoch": position.epoch}
            _save(draft / CONSOLIDATED, consolidated)
            self.folder.complete(past.step, manifest)

        on_rank_zero(rank, complete)

    def read(self, checkpoint: Path) -> Manifest:
        """Put the training where the checkpoint has it; returns the rest of what it says.

        Raises EveryRankError where it cannot be read.
        """
        found: list[Manifest] = []
        on_every_rank(self.place.everyone.size, lambda: found.append(read_manifest(checkpoint)))
        (manifest,) = found
        parallel, scaler = self.trainer.parallel, self.trainer.scaler
        state = held(parallel)
        who = f"{self.place.recipe.strategy} cannot read {checkpoint}, which {manifest.strategy} wrote"
        with _told_alike(who, "resume with the strategy that wrote it"):
            # Into the very tensors that model and optimizer train on.
            load(state, storage_reader=FileSystemReader(checkpoint))
        if parallel.engine:
            parallel.engine.put_back(state)
        else:
            set_model_state_dict(parallel.model, state["model"])
        if manifest.scaler:
            scaler.load_state_dict(dict(manifest.scaler))
        if (manifest.mesh, manifest.world_size) == self._layout:
            kept = torch.load(checkpoint / self._own_file, weights_only=True)
            randomness.restore(kept, self.place.device)
        return manifest

    def _write_generators(self, draft: Path) -> None:
        _save(draft / self._own_file, randomness.state(self.place.device))

    def _require_rank_zeros(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError(
                f"{self.folder.path} is not the folder that rank 0 has there: name one that all "
                "hosts share with --checkpoint-dir, or keep only the weights with "
                "--checkpoint-every 0"
            )

    def _manifest(self, past: Past, position: Position) -> Manifest:
        mesh, world_size = self._layout
        return Manifest(
            terms=self.terms,
            strategy=self.place.recipe.strategy,
            mesh=mesh,
            world_size=world_size,
            past=past,
            position=position,
            scaler=self.trainer.scaler.state_dict(),
            resumable=self.resumable,
        )

    @property
    def _own_file(self) -> str:
        return f"rank-{self.place.everyone.rank}.pt"

    @property
    def _layout(self) -> tuple[dict[str, int], int]:
        return dict(self.place.recipe.mesh), self.place.everyone.size


def held(parallel: Parallel) -> dict[str, Any]:
    """Return all tensors that this rank holds: themselves, or what an engine gives for them.

    model: name -> tensor. optimizer: name of the parameter -> what it is -> tensor. The optimizer's
    settings are left out: they are the recipe's, and the learning rate follows from the step.
    """
    if parallel.engine:
        return parallel.engine.read()
    model, optimizer = get_state_dict(parallel.model, parallel.held_by or parallel.optimizer)
    return {"model": model, "optimizer": optimizer["state"]}


def _save(file: Path, content: dict[str, Any]) -> None:
    packed = io.BytesIO()
    torch.save(content, packed)
    with writing(file):
        write_durably(file, packed.getvalue())


@contextmanager
def _told_alike(what: str, advice: str) -> Generator[None]:
    """Turn what torch raises on all ranks when one fails, a page of text, into one line."""
    try:
        yield
    except CheckpointException as error:
        rank, (reason, _) = next(iter(error.failures.items()))
        told = " ".join(str(reason).split())[:LONGEST_REASON]
        raise EveryRankError(f"{what}: {told} (rank {rank}); {advice}", ExitCode.USAGE) from error
