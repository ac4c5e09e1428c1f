"""The reference training run, as one rank of a job that a launcher has started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store

from ddpcheck.errors import DdpcheckError, ExitCode, GateError, LaunchError, UsageError
from ddpcheck.launch.identity import Identity, identity
from ddpcheck.report import add_training, read_report, report_file
from ddpcheck.settings import TrainSettings
from ddpcheck.target.builtin import shared_sampler
from ddpcheck.target.minigpt import MiniGPTConfig
from ddpcheck.target.text import TextBlocks, read_text
from ddpcheck.train.agreement import Hello, agree, open_store, require_alike
from ddpcheck.train.checkpoint import CHECKPOINT_NAME, prepare_folder
from ddpcheck.train.data import ShardedBatches, fingerprint
from ddpcheck.train.gate import refusal
from ddpcheck.train.recipe import Recipe, rank_batch, recipe_from
from ddpcheck.train.session import Session
from ddpcheck.train.summary import summary_lines
from ddpcheck.train.together import EveryRankError, on_rank_zero

LATEST_REPORT = "reports/latest"


def train_rank(settings: TrainSettings) -> int:
    """Train MiniGPT as the rank that the environment names; returns the exit code.

    Adds the section ``training`` to the report. Every rank of the job must call this with
    the same settings; rank 0 reads the report and writes to stdout.
    """
    rank = os.environ.get("RANK", "?")
    try:
        _train(settings, identity(os.environ))
    except EveryRankError as error:
        if rank == "0":
            sys.stderr.write(f"ddpcheck: {error}\n")
        return int(error.exit_code)
    except DdpcheckError as error:
        sys.stderr.write(f"ddpcheck: rank {rank}: {error}\n")
        return int(error.exit_code)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return int(ExitCode.OK)


def _train(settings: TrainSettings, who: Identity) -> None:
    timeout = timedelta(seconds=settings.deadline_s)
    report = report_file(Path(settings.report or LATEST_REPORT).resolve())
    checkpoint = Path(settings.checkpoint_dir or report.parent).resolve() / CHECKPOINT_NAME
    text, hello = _introduction(settings, who)
    blocks = TextBlocks(text, MiniGPTConfig().block)

    def decide(hellos: Mapping[int, Hello]) -> Recipe:
        require_alike(hellos)
        prepare_folder(checkpoint.parent)
        return _decision(settings, report, blocks, hellos)

    store = open_store(who, timeout)
    recipe = agree(store, who, hello, decide)
    device = _device(recipe, who)
    _join(store, recipe, who, device, timeout)
    batch = rank_batch(settings.global_batch, who.world_size)
    batches = ShardedBatches(blocks, batch, who.rank, who.world_size)
    training = Session(who, recipe, device, batches, settings.steps, checkpoint).run()
    on_rank_zero(who.rank, lambda: _conclude(report, training))
    # Rank 0 may host the store: it must not leave before the others are done with it.
    dist.barrier()


def _introduction(settings: TrainSettings, who: Identity) -> tuple[Tensor, Hello]:
    gpu = torch.cuda.device_count() > 0
    try:
        text = read_text(settings.data)
    except DdpcheckError as error:
        failed = Hello(host=who.host, gpu=gpu, error=str(error), exit_code=error.exit_code)
        return torch.empty(0, dtype=torch.uint8), failed
    return text, Hello(host=who.host, gpu=gpu, text=fingerprint(text))


def _decision(
    settings: TrainSettings, report: Path, blocks: TextBlocks, hellos: Mapping[int, Hello]
) -> Recipe:
    """Return what rank 0 decides for all ranks; raises what speaks against training."""
    if settings.steps < 1:
        raise UsageError(f"--steps {settings.steps}: train for one step or more")
    world_size = len(hellos)
    read = read_report(report)
    reason = refusal(read, world_size, [hello.host for hello in hellos.values()])
    if reason and not settings.force:
        raise GateError(reason)
    shared_sampler(blocks, rank_batch(settings.global_batch, world_size), 0, world_size)
    gpus = all(hello.gpu for hello in hellos.values())
    return recipe_from(settings, read.recommendation, gpus=gpus)


def _device(recipe: Recipe, who: Identity) -> torch.device:
    if recipe.device == "cpu":
        return torch.device("cpu")
    # Where each rank is shown a GPU of its own, that is number 0 for all.
    device = torch.device("cuda", who.local_rank % torch.cuda.device_count())
    # Collectives of Python objects go through the current device.
    torch.cuda.set_device(device)
    return device


def _join(
    store: Store, recipe: Recipe, who: Identity, device: torch.device, timeout: timedelta
) -> None:
    try:
        dist.init_process_group(
            recipe.backend,
            store=PrefixStore("group", store),
            rank=who.rank,
            world_size=who.world_size,
            timeout=timeout,
            # Bound to its GPU, NCCL connects at once: faults show here, not amid training.
            device_id=device if recipe.backend == "nccl" else None,
        )
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise LaunchError(f"cannot join the process group of the training: {reason}") from error


def _conclude(report: Path, training: Mapping[str, Any]) -> None:
    add_training(report, training)
    sys.stdout.write("\n".join(summary_lines(training, str(report))) + "\n")
    sys.stdout.flush()
