"""Prove strategies equal to one process: the same steps, on the same data, from the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import Dataset

from ddpcheck.measures.words import as_options
from ddpcheck.target.builtin import seeded
from ddpcheck.target.minigpt import PADDING, MiniGPT, MiniGPTConfig, count_predictions
from ddpcheck.train.data import ShardedBatches
from ddpcheck.train.exact import Exact
from ddpcheck.train.parallel import ALONE, Place, Share
from ddpcheck.train.parity import Parity, Reference, coarser
from ddpcheck.train.planning import REFERENCE, Misfit, Plan, mesh_text, needs_of
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import strategy_named
from ddpcheck.train.together import on_rank_zero
from ddpcheck.train.trace import Trace, record
from ddpcheck.train.trainer import trainer_of


class CutShort(Dataset[Tensor]):
    """Blocks of text, int64 [block + 1], that end early, each at another place.

    So ranks have different numbers of predictions, and the mean of the ranks' means is not the
    mean over all: a strategy that takes it for one is found out.
    """

    def __init__(self, blocks: Dataset[Tensor], size: int) -> None:
        self._blocks = blocks
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> Tensor:
        block = self._blocks[index].clone()
        # Knuth's multiplicative hash: neighbours in the text end at unlike places.
        block[2 + index * 2_654_435_761 % 2**32 * (len(block) - 2) // 2**32 :] = PADDING
        return block


@dataclass(frozen=True)
class Verification:
    """What all strategies are compared on; ``blocks`` is the data, ``steps`` how many of it."""

    blocks: Dataset[Tensor]
    global_batch: int
    steps: int
    device: torch.device
    everyone: Share

    def rows(self, plan: Plan) -> list[dict[str, Any]]:
        """Return one row a strategy for the section ``training.parity``; all ranks must call this.

        Every rank returns all rows.
        """
        rank = self.everyone.rank
        references: dict[str, Reference] = {}
        # One process first, while the others wait: so it has the machine to itself.
        on_rank_zero(rank, lambda: references.update(self._references(plan)))
        rows: list[dict[str, Any]] = []
        for recipe in plan.recipes:
            trace = self._trace(Place(recipe, self.device, self.everyone))
            if rank == 0:
                rows.append(_compared(recipe, references[_rounding(recipe)].compare(trace)))
        told = [[*rows, *map(_left_out, plan.misfits)]]
        dist.broadcast_object_list(told, src=0)
        return told[0]

    def _references(self, plan: Plan) -> dict[str, Reference]:
        """Return what one process shows, for each way to round that is in the plan."""
        fp32 = msgspec.structs.replace(
            plan.asked, strategy=REFERENCE, mesh={}, options={}, micro_batches=1, precision="fp32"
        )
        batches = list(islice(self._batches(ALONE), self.steps))
        exact = Exact(_model(), Place(fp32, self.device), batches)
        return {
            _rounding(recipe): Reference(
                one=self._trace(Place(_reference_of(recipe), self.device)),
                exact=exact,
                precision=coarser(recipe.precision, needs_of(recipe).coarsest),
                predictions=count_predictions(batches[0]),
            )
            for recipe in {_rounding(recipe): recipe for recipe in plan.recipes}.values()
        }

    def _trace(self, place: Place) -> Trace:
        parallel = strategy_named(place.recipe.strategy).build(_model(), place)
        trainer = trainer_of(parallel, place, self.steps)
        return record(trainer, self._batches(parallel.data))

    def _batches(self, data: Share) -> Iterator[Tensor]:
        share = self.global_batch // data.size
        shares = ShardedBatches(self.blocks, share, data.rank, data.size)
        return (batch for _, batch in shares.iterate())


def _model() -> MiniGPT:
    return seeded(lambda: MiniGPT(MiniGPTConfig()))


def _reference_of(recipe: Recipe) -> Recipe:
    """Return the recipe of the one process that rounds as this one does."""
    rounding = needs_of(recipe).rounding
    return msgspec.structs.replace(
        recipe, strategy=REFERENCE, mesh={}, options=rounding, micro_batches=1
    )


def _rounding(recipe: Recipe) -> str:
    return as_options(_reference_of(recipe).options)


def _compared(recipe: Recipe, parity: Parity) -> dict[str, Any]:
    return {
        "strategy": recipe.strategy,
        "mesh": mesh_text(recipe.mesh),
        "options": dict(recipe.options),
        "precision": recipe.precision,
        "micro_batches": recipe.micro_batches,
        "result": "fail" if parity.broken else "pass",
        **msgspec.to_builtins(parity),
    }


def _left_out(misfit: Misfit) -> dict[str, Any]:
    return {
        "strategy": misfit.strategy,
        "mesh": mesh_text(misfit.mesh),
        "options": dict(misfit.options),
        "result": "skip",
        "reason": misfit.reason,
    }
