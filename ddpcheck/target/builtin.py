"""The targets that ddpcheck brings: what is rehearsed when the user names none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ddpcheck.errors import TargetError
from ddpcheck.target.convnet import ConvNet, TextPictures, image_loss
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, next_byte_loss
from ddpcheck.target.target import Target
from ddpcheck.target.text import TextBlocks, read_text

SEED = 0
MINIGPT_BATCH = 4
CONVNET_BATCH = 32

Item = TypeVar("Item")
Module = TypeVar("Module", bound=nn.Module)


def minigpt(data: str, rank: int, world_size: int) -> Target:
    """Return MiniGPT on the text ``data`` (see ``read_text``), batches int64 [4, 65] a rank."""
    config = MiniGPTConfig()
    model = seeded(lambda: MiniGPT(config))
    blocks = TextBlocks(read_text(data), config.block)
    return Target(
        model=model,
        loader=_loader(blocks, MINIGPT_BATCH, rank, world_size),
        loss=next_byte_loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
    )


def convnet(data: str, rank: int, world_size: int) -> Target:
    """Return the net with batch norm on pictures of ``data``, 32 pictures a batch and rank."""
    model = seeded(ConvNet)
    pictures = TextPictures(read_text(data))
    return Target(
        model=model,
        loader=_loader(pictures, CONVNET_BATCH, rank, world_size),
        loss=image_loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3),
    )


BUILT_IN: dict[str, Callable[[str, int, int], Target]] = {"minigpt": minigpt, "convnet": convnet}


def seeded(build: Callable[[], Module]) -> Module:
    """Return what ``build`` makes, the same on every rank; the caller's RNG stays as it was."""
    # torch.manual_seed would reseed the GPUs too; models are built on the CPU.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        return build()


def shared_sampler(
    dataset: Dataset[Item], batch: int, rank: int, world_size: int
) -> DistributedSampler[Item]:
    """Return what picks this rank's share of the data: shuffled, equally long on every rank.

    Call ``set_epoch`` on it before every epoch, or all epochs have the same order.
    Raises TargetError if the data is too short for one batch on every rank.
    """
    sampler: DistributedSampler[Item] = DistributedSampler(
        dataset, num_replicas=world_size, rank=rank, shuffle=True, seed=SEED, drop_last=True
    )
    if len(sampler) < batch:
        raise TargetError(
            f"the data gives each of {world_size} ranks {len(sampler)} items, fewer than "
            f"the batch of {batch}: name a larger file with --data"
        )
    return sampler


def _loader(dataset: Dataset[Item], batch: int, rank: int, world_size: int) -> DataLoader[Item]:
    return DataLoader(
        dataset,
        batch_size=batch,
        sampler=shared_sampler(dataset, batch, rank, world_size),
        drop_last=True,
        # Starting an epoch draws a seed for workers: here, not from the caller's RNG.
        generator=torch.Generator().manual_seed(SEED + rank),
    )
