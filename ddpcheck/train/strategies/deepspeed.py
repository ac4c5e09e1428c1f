"""Ranks share out optimizer state, gradients, and weights, by stages: DeepSpeed's ZeRO."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Mapping, Sequence
from importlib import reload
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Any, Literal, cast

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddpcheck.errors import ExitCode
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig, summed_next_byte_loss
from ddpcheck.train.engine_state import EngineState
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.optimizer import MAX_GRADIENT_NORM, adamw
from ddpcheck.train.parallel import Mesh, Needs, Parallel, Place, Read, Scale
from ddpcheck.train.precision import HALF
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.together import EveryRankError

AXES = ("dp",)
DATA_AXES = AXES
VARIANTS: Sequence[Mapping[str, str]] = ({"zero": "1"}, {"zero": "2"}, {"zero": "3"})
FP16 = "DeepSpeed has a loss scaler of its own in place of torch's: use bf16 or fp32"
INSTALL = "needs DeepSpeed 0.18 or newer: pip install 'ddpcheck[deepspeed]'"
# Older ones do not know "torch_autocast": they train in fp32, and say nothing.
OLDEST = (0, 18)
# Gradients that travel together where no report recommends a size: as many as torch's DDP sends.
BUCKET_MIB = 25
# The operation that DeepSpeed compiles when it first meets a gloo group.
SHARED_MEMORY_OP = "deepspeed_shm_comm"


class Options(msgspec.Struct, frozen=True):
    """zero: what is shared out: 1 is the optimizer's state, 2 gradients, too, 3 weights, too."""

    zero: Literal[1, 2, 3] = 3


def meshes(world_size: int) -> list[Mesh]:
    """Return the one mesh: all ranks hold a part."""
    return [{"dp": world_size}]


def obstacle(recipe: Recipe, _config: MiniGPTConfig) -> str:
    """Return why it cannot run: DeepSpeed is missing, or would scale losses in its own way."""
    if lack := what_is_missing():
        return lack
    if recipe.precision == "fp16":
        return FP16
    return ""


def needs(_recipe: Recipe) -> Needs:
    """Return that it needs nothing: half precision is autocast's, as in one process."""
    return Needs()


def build(model: MiniGPT, place: Place) -> Parallel:
    """Return this rank's part of what DeepSpeed's engine shares out."""
    require_everywhere(place)
    engine = start_engine(model, place, settings(place))
    training = EngineTraining(engine, place)
    return Parallel(
        model=engine,
        optimizer=cast(torch.optim.Optimizer, training),
        data=place.everyone,
        backward=training.backward,
        clip=training.clip,
        collect=training.collect,
        # Ranks compare what they are about to do, and raise where they differ.
        pretends=False,
        engine=EngineState(engine, training.idle_step),
    )


def what_is_missing() -> str:
    """Return what to install on this host, or ''."""
    try:
        number = version("deepspeed").split(".")[: len(OLDEST)]
    except PackageNotFoundError:
        return INSTALL
    return "" if tuple(map(int, number)) >= OLDEST else INSTALL


def require_everywhere(place: Place) -> None:
    """Raise EveryRankError, naming hosts, where DeepSpeed is not installed on all of them."""
    hosts = [socket.gethostname() if what_is_missing() else ""] * place.everyone.size
    if place.everyone.size > 1:
        dist.all_gather_object(hosts, hosts[place.everyone.rank], group=place.everyone.group)
    if lacking := sorted(set(filter(None, hosts))):
        raise EveryRankError(f"{', '.join(lacking)} {INSTALL}", ExitCode.USAGE)


def settings(place: Place) -> dict[str, Any]:
    """Return what is otherwise DeepSpeed's configuration file."""
    recipe = place.recipe
    bucket = int((recipe.bucket_cap_mb or BUCKET_MIB) * 2**20) // torch.float32.itemsize
    half = HALF.get(recipe.precision)
    return {
        # DeepSpeed only tells of the sizes that it is given: the batches are ours.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": recipe.micro_batches,
        "gradient_clipping": MAX_GRADIENT_NORM,
        # Its "bf16" would begin with weights that are rounded to bf16, and lose their last digits.
        "torch_autocast": {
            "enabled": half is not None,
            "dtype": str(half or torch.bfloat16).removeprefix("torch."),
            # Of these it would send gradients in half precision.
            "lower_precision_safe_modules": [],
        },
        "zero_optimization": {
            "stage": place.options(Options).zero,
            # By itself it sets 2 GB a rank aside for them.
            "reduce_bucket_size": bucket,
            # By itself stage 3 keeps weights of less than 100,000 elements on every rank: all here.
            "stage3_param_persistence_threshold": 0,
        },
    }


def start_engine(model: MiniGPT, place: Place, config: Mapping[str, Any]) -> Any:
    """Return DeepSpeed's engine, on the process group that is there."""
    # It is read on the first import.
    os.environ["DS_ACCELERATOR"] = place.device.type
    # Without it DeepSpeed refuses to start; not every launcher sets it.
    os.environ.setdefault("LOCAL_RANK", str(place.device.index or 0))
    import deepspeed

    # Of functions that it calls torch says so each time: nobody would see the progress.
    warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
    # It serves inference alone, takes minutes to compile, and a build that was killed leaves a
    # lock for which the next one would wait without end.
    deepspeed.ops.__compatible_ops__[SHARED_MEMORY_OP] = False
    # It remembers groups, also those of a job that came before in this process, and has gone.
    deepspeed.comm.comm.cdb = None
    reload(deepspeed.utils.groups)
    deepspeed.init_distributed(place.recipe.backend, auto_mpi_discovery=False)
    model.to(place.device)
    engine, *_ = deepspeed.initialize(
        model=model, optimizer=adamw(model), config=dict(config), dist_init_required=False
    )
    return engine


class EngineTraining:
    """Drives an engine of DeepSpeed's, one half of a step at a time; acts as its optimizer, too."""

    def __init__(self, engine: Any, place: Place) -> None:
        self.engine = engine
        self.place = place
        self._shrunk = torch.ones(())

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Return the optimizer's groups: their learning rates are what counts."""
        return cast("list[dict[str, Any]]", self.engine.optimizer.param_groups)

    def backward(self, batch: Tensor, total: Tensor, scale: Scale) -> Tensor:
        """Leave the engine's part of the gradient; see ``ddp.backward``: it takes a mean, too."""
        share = torch.zeros((), device=self.place.device)
        for piece, last in micro_batches(batch, self.place.recipe.micro_batches):
            loss = summed_next_byte_loss(self.engine, piece) / total
            # By itself it would divide by the number of micro-batches: this is a sum already.
            self.engine.backward(scale(loss * self.place.everyone.size), scale_wrt_gas=False)
            if not last:
                # After every one, so that it can count: it updates nothing before the last.
                self.engine.step()
            share = share + loss.detach()
        return share

    def clip(self, largest: float) -> Tensor:
        """Return the norm; the engine will clip, as its settings say, when it steps."""
        own = torch.zeros((), device=self.place.device)
        for each in chain.from_iterable(self._held_gradients()):
            own += each.square().sum()
        norm = self.place.everyone.sum(own).sqrt()
        self._shrunk = (largest / (norm + 1e-6)).clamp(max=1.0)
        return norm

    @property
    def optim(self) -> torch.optim.Optimizer:
        """Return the optimizer of this rank's part."""
        return cast(torch.optim.Optimizer, self.engine.optimizer.optimizer)

    def step(self) -> None:
        """Clip, update, and give the new weights to those who need them."""
        self.engine.step()

    def idle_step(self) -> None:
        """Step without a gradient at a learning rate of 0, as torch's get_state_dict does."""
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            group["lr"] = 0.0
        batch = torch.zeros(
            (self.place.recipe.micro_batches, MiniGPTConfig().block + 1),
            dtype=torch.int64,
            device=self.place.device,
        )
        self.backward(batch, torch.ones((), device=self.place.device), lambda loss: loss * 0)
        self.step()
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate

    def zero_grad(self) -> None:
        """Do nothing: the engine forgets the gradients that it has used."""

    def collect(self, read: Read) -> dict[str, Tensor]:
        """Read every parameter in full, with the gradient that the optimizer is to see."""
        from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_grad

        found: dict[str, Tensor] = {}
        for name, parameter in self.engine.module.named_parameters():
            full = nn.Parameter(cast(Tensor, safe_get_full_fp32_param(parameter)).detach().clone())
            if self._held_gradients():
                full.grad = cast(Tensor, safe_get_full_grad(parameter)) * self._shrunk
            if self.place.everyone.rank == 0:
                found[name] = read(full).detach().cpu()
        return found

    def _held_gradients(self) -> list[list[Tensor]]:
        """Return this rank's parts of the gradient, group by group; [] where no step is due."""
        groups: dict[int, list[Tensor] | None] = self.engine.optimizer.averaged_gradients
        return [group for group in groups.values() if group is not None]
