"""One rank's training session, once the ranks have agreed and the process group stands."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, next_byte_loss
from ddpcheck.target.step_split import SplitParts, measure_split
from ddpcheck.train.course import Keeping, run_course
from ddpcheck.train.data import ShardedBatches
from ddpcheck.train.manifest import Past
from ddpcheck.train.parallel import Parallel, Place, Share
from ddpcheck.train.planning import data_ranks, mesh_text
from ddpcheck.train.precision import autocast, tf32_allowed
from ddpcheck.train.speed import single_rank_tokens_per_s
from ddpcheck.train.strategies import strategy_named
from ddpcheck.train.trainer import trainer_of

SPLIT_STEPS = 6


@dataclass(frozen=True)
class Session:
    """What this rank trains with, and how that is kept."""

    place: Place
    blocks: Dataset[Tensor]
    keeping: Keeping

    def run(self) -> dict[str, Any]:
        """Train; returns the report's section ``training``, as measured on this rank.

        Raises EveryRankError where a rank was asked to stop, once that is kept.
        """
        started_s = perf_counter()
        recipe, everyone = self.place.recipe, self.place.everyone
        model = seeded(lambda: MiniGPT(MiniGPTConfig()))
        parameters = sum(each.numel() for each in model.parameters())
        strategy = strategy_named(recipe.strategy)
        alone = self._speed_alone(model, self.global_batch // data_ranks(strategy, recipe.mesh))
        parallel = strategy.build(model, self.place)
        trainer = trainer_of(parallel, self.place, self.steps)
        shares = self._shares(parallel.data)
        past = run_course(trainer, self.place, shares, self.keeping)
        exposed = self._exposed_share(parallel, shares)
        return {
            **_outcome(past),
            "strategy": recipe.strategy,
            "mesh": mesh_text(recipe.mesh),
            "options": dict(recipe.options),
            "steps": self.steps,
            "global_batch": self.global_batch,
            "micro_batches": recipe.micro_batches,
            "precision": recipe.precision,
            "tf32": tf32_allowed(recipe),
            "backend": recipe.backend,
            "device": recipe.device,
            "world_size": everyone.size,
            "single_rank_tokens_per_s": alone,
            "scaling_efficiency": past.tokens_per_s / (everyone.size * alone),
            **({} if exposed is None else {"exposed_comm_share": exposed}),
            "checkpoint": str(self.keeping.folder.named(self.steps)),
            "parameters": parameters,
            "duration_s": perf_counter() - started_s,
        }

    @property
    def global_batch(self) -> int:
        """Return how many sequences all ranks together train on in a step."""
        return self.keeping.terms.global_batch

    @property
    def steps(self) -> int:
        """Return how many steps the whole training has."""
        return self.keeping.terms.steps

    def _shares(self, data: Share) -> ShardedBatches:
        return ShardedBatches(self.blocks, self.global_batch // data.size, data.rank, data.size)

    def _speed_alone(self, model: MiniGPT, rank_batch: int) -> float:
        # All wait for rank 0, so that it has the machine to itself, and all learn its speed.
        speed = torch.zeros((), dtype=torch.float64, device=self.place.device)
        if self.place.everyone.rank == 0:
            batches = ShardedBatches(self.blocks, rank_batch, 0, 1).iterate()
            speed += single_rank_tokens_per_s(model, batches, self.place)
        dist.broadcast(speed, src=0)
        return speed.item()

    def _exposed_share(self, parallel: Parallel, shares: ShardedBatches) -> float | None:
        """Return the share of a step that waits for communication, as a mean over the ranks.

        None where a step cannot be had without communication. Trains on, so it comes after the
        last checkpoint.
        """
        if not isinstance(parallel.model, DistributedDataParallel):
            return None

        def loss(model: nn.Module, batch: Tensor) -> Tensor:
            with autocast(self.place):
                return next_byte_loss(model, batch)

        device, everyone = self.place.device, self.place.everyone
        parts = SplitParts(parallel.model, loss, parallel.optimizer, str(device))
        split = measure_split(parts, (batch for _, batch in shares.iterate()), SPLIT_STEPS)
        share = torch.tensor(split.exposed_share, dtype=torch.float64, device=device)
        return everyone.sum(share).item() / everyone.size


def _outcome(past: Past) -> dict[str, Any]:
    return {
        "loss": past.loss,
        "final_loss": past.loss[-1][1],
        "tokens_per_s": past.tokens_per_s,
        **({"resumed_at": past.resumed_at} if past.resumed_at else {}),
    }
