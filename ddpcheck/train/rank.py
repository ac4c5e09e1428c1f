"""The reference training run, as one rank of a job that a launcher has started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor

from ddpcheck.errors import DdpcheckError, ExitCode, GateError, UsageError
from ddpcheck.launch.identity import Identity, identity
from ddpcheck.launch.names import in_torchs_names
from ddpcheck.measures.testimony import is_victims
from ddpcheck.measures.words import brief
from ddpcheck.report import add_training, read_report, report_file
from ddpcheck.settings import TrainSettings
from ddpcheck.target.builtin import shared_sampler
from ddpcheck.target.minigpt import MiniGPTConfig
from ddpcheck.target.text import TextBlocks, read_text
from ddpcheck.train.advice import recommended
from ddpcheck.train.agreement import Hello, agree, open_store, require_alike
from ddpcheck.train.checkpoint_folder import CheckpointFolder
from ddpcheck.train.course import Keeping
from ddpcheck.train.data import fingerprint
from ddpcheck.train.gate import refusal
from ddpcheck.train.manifest import Terms
from ddpcheck.train.parallel import Place, Share
from ddpcheck.train.planning import ALL, Plan, backends, plan
from ddpcheck.train.recipe import Recipe, recipe_from
from ddpcheck.train.resuming import checkpoint_to_resume, restarted
from ddpcheck.train.scaling import Scaling
from ddpcheck.train.session import Session
from ddpcheck.train.summary import parity_lines, scaling_lines, summary_lines
from ddpcheck.train.together import EveryRankError, on_rank_zero
from ddpcheck.train.verify import CutShort, Verification
from ddpcheck.train.world import World

LATEST_REPORT = "reports/latest"
MODEL = str(MiniGPTConfig()).replace("Config", "")


def train_rank(settings: TrainSettings) -> int:
    """Train MiniGPT as the rank that the environment names; returns the exit code.

    Adds the section ``training`` to the report. Every rank of the job must call this with
    the same settings; rank 0 reads the report and writes to stdout.
    """
    # Whoever launched it: torch, and what is built on it, look for these names.
    os.environ.update(in_torchs_names(os.environ))
    rank = os.environ.get("RANK", "?")
    try:
        return int(_train(settings, identity(os.environ)))
    except EveryRankError as error:
        if rank == "0":
            sys.stderr.write(f"ddpcheck: {error}\n")
        return int(error.exit_code)
    except DdpcheckError as error:
        sys.stderr.write(f"ddpcheck: rank {rank}: {error}\n")
        return int(error.exit_code)
    except RuntimeError as error:
        if not is_victims(f"{type(error).__name__}: {error}"):
            raise
        reason = brief(" ".join(str(error).split()).partition(". ")[0], 200)
        sys.stderr.write(f"ddpcheck: rank {rank}: another rank has gone: {reason}\n")
        return int(ExitCode.INCOMPLETE)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _train(settings: TrainSettings, who: Identity) -> ExitCode:
    timeout = timedelta(seconds=settings.deadline_s)
    report = report_file(Path(settings.report or LATEST_REPORT).resolve())
    text, hello = _introduction(settings, who)
    blocks = TextBlocks(text, MiniGPTConfig().block)
    keeping = _keeping(settings, report, hello.text)

    def decide(hellos: Mapping[int, Hello]) -> Plan:
        require_alike(hellos)
        keeping.folder.prepare()
        decided = _decision(settings, report, blocks, hellos)
        resume = _resume(settings, keeping)
        return msgspec.structs.replace(decided, resume=resume)

    store = open_store(who, timeout)
    agreed = agree(store, who, hello, decide)
    device = _device(agreed.asked, who)
    world = World(store, backends(agreed), device, timeout)
    if settings.scaling:
        code = _scale(settings, report, Scaling(world, blocks, who), agreed.asked)
    else:
        keeping = replace(keeping, resume=agreed.resume)
        world.join("all", who.rank, who.world_size)
        everyone = Share(who.rank, who.world_size, dist.group.WORLD)
        job = Job(settings, report, blocks, everyone, device)
        code = job.verify(agreed) if settings.verify else job.train(agreed.recipes[0], keeping)
    # Rank 0 may host the store: it must not leave before the others are done with it.
    dist.barrier()
    return code


@dataclass(frozen=True)
class Job:
    """What this rank does once all have agreed, and its group stands."""

    settings: TrainSettings
    report: Path
    blocks: TextBlocks
    everyone: Share
    device: torch.device

    def train(self, recipe: Recipe, keeping: Keeping) -> ExitCode:
        """Train; adds the section ``training`` to the report."""
        place = Place(recipe, self.device, self.everyone)
        training = Session(place, self.blocks, keeping).run()
        _conclude(
            self.report, self.everyone.rank, training, summary_lines(training, str(self.report))
        )
        return ExitCode.OK

    def verify(self, plan: Plan) -> ExitCode:
        """Compare strategies with one process; adds ``training.parity`` to the report."""
        settings = self.settings
        blocks = CutShort(self.blocks, len(self.blocks))
        rows = Verification(
            blocks, settings.global_batch, settings.verify_steps, self.device, self.everyone
        ).rows(plan)
        _conclude(
            self.report, self.everyone.rank, {"parity": rows}, parity_lines(rows, str(self.report))
        )
        failed = any(row["result"] == "fail" for row in rows)
        return ExitCode.FINDINGS if failed else ExitCode.OK


def _scale(settings: TrainSettings, report: Path, scaling: Scaling, asked: Recipe) -> ExitCode:
    """Measure how strategies scale; adds ``training.scaling`` to the report."""
    rows, misfits = scaling.rows(asked, settings.global_batch)
    told = {
        "global_batch": settings.global_batch,
        "precision": asked.precision,
        "micro_batches": asked.micro_batches,
        "rows": rows,
        "left_out": misfits,
        "recommended": recommended(rows, asked),
    }
    _conclude(report, scaling.who.rank, {"scaling": told}, scaling_lines(told, str(report)))
    return ExitCode.OK


def _conclude(report: Path, rank: int, training: Mapping[str, Any], lines: list[str]) -> None:
    def tell() -> None:
        add_training(report, training)
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    on_rank_zero(rank, tell)


def _introduction(settings: TrainSettings, who: Identity) -> tuple[Tensor, Hello]:
    gpu = torch.cuda.device_count() > 0
    try:
        text = read_text(settings.data)
    except DdpcheckError as error:
        failed = Hello(host=who.host, gpu=gpu, error=str(error), exit_code=error.exit_code)
        return torch.empty(0, dtype=torch.uint8), failed
    return text, Hello(host=who.host, gpu=gpu, text=fingerprint(text))


def _keeping(settings: TrainSettings, report: Path, text: str) -> Keeping:
    return Keeping(
        folder=CheckpointFolder(Path(settings.checkpoint_dir or report.parent).resolve()),
        terms=Terms(
            model=MODEL, text=text, global_batch=settings.global_batch, steps=settings.steps
        ),
        save_every=settings.checkpoint_every,
        command=settings.command + ("" if settings.resume else " --resume"),
    )


def _resume(settings: TrainSettings, keeping: Keeping) -> str:
    """Return the checkpoint to go on from, or ''; raises UsageError, see ``checkpoint_to_resume``."""
    if settings.verify or settings.scaling:  # nothing is kept of what they train
        return ""
    again = restarted(os.environ)
    found = checkpoint_to_resume(keeping.folder, keeping.terms, asked=settings.resume, again=again)
    return str(found or "")


def _decision(
    settings: TrainSettings, report: Path, blocks: TextBlocks, hellos: Mapping[int, Hello]
) -> Plan:
    """Return what rank 0 decides for all ranks; raises what speaks against training."""
    _require_one_purpose(settings)
    world_size = len(hellos)
    read = read_report(report)
    reason = refusal(read, world_size, [hello.host for hello in hellos.values()])
    if reason and not settings.force:
        raise GateError(reason)
    shared_sampler(blocks, settings.global_batch, 0, 1)
    gpus = all(hello.gpu for hello in hellos.values())
    asked = recipe_from(settings, read.recommendation, gpus=gpus)
    return plan(asked, world_size, settings.global_batch)


def _require_one_purpose(settings: TrainSettings) -> None:
    """Raise UsageError where options do not go together."""
    if settings.steps < 1:
        raise UsageError(f"--steps {settings.steps}: train for one step or more")
    if settings.verify and settings.scaling:
        raise UsageError("--verify and --scaling are two runs: give one of them at a time")
    measures = settings.verify or settings.scaling
    if settings.resume and measures:
        named = "--verify" if settings.verify else "--scaling"
        raise UsageError(
            f"{named} trains a few steps of its own, and keeps none: leave out --resume"
        )
    if settings.strategy == ALL and not measures:
        raise UsageError("--strategy all is for --verify and --scaling: choose one to train with")


def _device(recipe: Recipe, who: Identity) -> torch.device:
    if recipe.device == "cpu":
        return torch.device("cpu")
    # Where each rank is shown a GPU of its own, that is number 0 for all.
    device = torch.device("cuda", who.local_rank % torch.cuda.device_count())
    # Collectives of Python objects go through the current device.
    torch.cuda.set_device(device)
    # What is left for the CPU are batches, in pieces that many threads are woken for in vain, and
    # wait for where cores are busy: so a rank has one, as under torchrun, unless it is told more.
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    return device
