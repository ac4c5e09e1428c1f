"""Replicas that share out the optimizer's state: ZeroRedundancyOptimizer (ZeRO, stage 1)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

from ddpcheck.target.minigpt import MiniGPT
from ddpcheck.train.optimizer import ADAMW, parameter_groups
from ddpcheck.train.parallel import Parallel, Place
from ddpcheck.train.strategies import ddp
from ddpcheck.train.strategies.ddp import (
    AXES,
    DATA_AXES,
    VARIANTS,
    Options,
    meshes,
    needs,
    obstacle,
)

__all__ = ["AXES", "DATA_AXES", "VARIANTS", "Options", "build", "meshes", "needs", "obstacle"]


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return a replica as of ``ddp``; each rank updates its part of it, and sends that to all."""
    replica = ddp.build(model, place)
    optimizer = ZeroRedundancyOptimizer(
        parameter_groups(replica.model), optimizer_class=torch.optim.AdamW, **ADAMW
    )
    return replace(replica, optimizer=optimizer, held_by=optimizer.optim)
