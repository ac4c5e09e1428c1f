"""One rank's training session, once the ranks have agreed and the process group stands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddpcheck.launch.identity import Identity
from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.target.step_split import SplitParts, measure_split
from ddpcheck.train.checkpoint import write_checkpoint
from ddpcheck.train.data import ShardedBatches
from ddpcheck.train.loop import History, Save, train
from ddpcheck.train.progress import Progress
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.speed import single_rank_tokens_per_s
from ddpcheck.train.together import on_rank_zero
from ddpcheck.train.trainer import Trainer, replicate, trainer_of

SPLIT_STEPS = 6


@dataclass(frozen=True)
class Session:
    """What this rank trains with; ``checkpoint`` is a path on rank 0's host."""

    who: Identity
    recipe: Recipe
    device: torch.device
    batches: ShardedBatches
    steps: int
    checkpoint: Path

    def run(self) -> dict[str, Any]:
        """Train; returns the report's section ``training``, as measured on this rank."""
        started_s = perf_counter()
        model = seeded(lambda: MiniGPT(MiniGPTConfig())).to(self.device)
        alone = self._speed_alone(model)
        ddp = replicate(model, self.recipe, self.device)
        trainer = trainer_of(ddp, self.recipe, self.device, self.steps, self.who.world_size)
        batches = self._iterate()
        history = train(trainer, batches, self._saver(ddp, trainer), self._progress())
        exposed = self._exposed_share(ddp, trainer, batches)
        return {
            **_outcome(history),
            "strategy": self.recipe.strategy,
            "steps": self.steps,
            "global_batch": self.batches.rank_batch * self.who.world_size,
            "precision": self.recipe.precision,
            "backend": self.recipe.backend,
            "device": self.recipe.device,
            "world_size": self.who.world_size,
            "single_rank_tokens_per_s": alone,
            "scaling_efficiency": history.tokens_per_s / (self.who.world_size * alone),
            "exposed_comm_share": exposed,
            "checkpoint": str(self.checkpoint),
            "parameters": sum(each.numel() for each in model.parameters()),
            "duration_s": perf_counter() - started_s,
        }

    def _iterate(self) -> Iterator[tuple[int, Tensor]]:
        return self.batches.iterate(
            workers=self.recipe.dataloader_workers, pin_memory=self.device.type == "cuda"
        )

    def _speed_alone(self, model: nn.Module) -> float:
        # All wait for rank 0, so that it has the machine to itself, and all learn its speed.
        speed = torch.zeros((), dtype=torch.float64, device=self.device)
        if self.who.rank == 0:
            speed += single_rank_tokens_per_s(model, self._iterate(), self.recipe, self.device)
        dist.broadcast(speed, src=0)
        return speed.item()

    def _saver(self, ddp: DistributedDataParallel, trainer: Trainer) -> Save:
        def save(step: int, epoch: int) -> None:
            on_rank_zero(
                self.who.rank,
                lambda: write_checkpoint(
                    self.checkpoint,
                    {
                        # The bare module's: no "module." before the names.
                        "model": ddp.module.state_dict(),
                        "optimizer": trainer.optimizer.state_dict(),
                        "scaler": trainer.scaler.state_dict(),
                        "step": step,
                        "epoch": epoch,
                    },
                ),
            )

        return save

    def _exposed_share(
        self, ddp: DistributedDataParallel, trainer: Trainer, batches: Iterator[tuple[int, Tensor]]
    ) -> float:
        """Return the share of a step that waits for communication, as a mean over the ranks.

        Trains on, so it comes after the last checkpoint.
        """
        parts = SplitParts(ddp, trainer.mean_loss, trainer.optimizer, str(self.device))
        split = measure_split(parts, (batch for _, batch in batches), SPLIT_STEPS)
        share = torch.tensor(split.exposed_share, dtype=torch.float64, device=self.device)
        dist.all_reduce(share)
        return share.item() / self.who.world_size

    def _progress(self) -> Progress | None:
        return Progress(self.steps, sys.stderr, perf_counter) if self.who.rank == 0 else None


def _outcome(history: History) -> dict[str, Any]:
    return {
        "loss": history.loss,
        "final_loss": history.loss[-1][1],
        "tokens_per_s": history.tokens_per_s,
    }
