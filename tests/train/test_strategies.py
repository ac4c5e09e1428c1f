"""Every strategy on real gloo ranks, compared with one process."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from verified import verify

from ddpcheck.target.minigpt import MiniGPTConfig
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import ddp, deepspeed, strategy_named, strategy_names

CPU_OFFLOAD = "fsdp on dp=2: cpu_offload is for GPUs: leave it out"
STATIC = "static_graph needs gradients that are sent in every pass: use --micro-batches 1"
COMPRESSION = "bf16_compression is for NCCL, torch refuses it on gloo: leave it out"
FOUR_RANKS = "it needs two replicas of two shards, or more: use 4 ranks, or fsdp"
TWO = {
    "ddp dp=2": "pass",
    "ddp dp=2 static_graph": "pass",
    "ddp dp=2 bf16_compression": f"ddp on dp=2: {COMPRESSION}",
    "fsdp dp=2": "pass",
    "fsdp dp=2 activation_checkpointing": "pass",
    "fsdp dp=2 reshard_after_forward=false": "pass",
    "fsdp dp=2 cpu_offload": CPU_OFFLOAD,
    "hsdp replicate=2,shard=1": f"hsdp on replicate=2,shard=1: {FOUR_RANKS}",
    "pp pp=2 schedule=gpipe": "pass",
    "pp pp=2 schedule=1f1b": "pass",
    "tp tp=2": "pass",
    "zero1 dp=2": "pass",
    "zero1 dp=2 static_graph": "pass",
    "zero1 dp=2 bf16_compression": f"zero1 on dp=2: {COMPRESSION}",
}
FOUR = {
    "ddp dp=4": "pass",
    "ddp dp=4 static_graph": "pass",
    "ddp dp=4 bf16_compression": f"ddp on dp=4: {COMPRESSION}",
    "fsdp dp=4": "pass",
    "fsdp dp=4 activation_checkpointing": "pass",
    "fsdp dp=4 reshard_after_forward=false": "pass",
    "fsdp dp=4 cpu_offload": CPU_OFFLOAD.replace("dp=2", "dp=4"),
    "hsdp replicate=2,shard=2": "pass",
    "pp pp=4 schedule=gpipe": "pass",
    "pp pp=4 schedule=1f1b": "pass",
    "pp dp=2,pp=2 schedule=gpipe": "pass",
    "pp dp=2,pp=2 schedule=1f1b": "pass",
    "tp tp=4": "pass",
    "tp dp=2,tp=2": "pass",
    "zero1 dp=4": "pass",
    "zero1 dp=4 static_graph": "pass",
    "zero1 dp=4 bf16_compression": f"zero1 on dp=4: {COMPRESSION}",
}


def of_deepspeed(world_size: int, precision: str = "fp32") -> dict[str, str]:
    """Return the results that its stages must have, whether it is installed or not."""
    why_not = deepspeed.what_is_missing() or (deepspeed.FP16 if precision == "fp16" else "")
    reason = f"deepspeed on dp={world_size}: {why_not}"
    return {
        f"deepspeed dp={world_size} zero={stage}": reason if why_not else "pass"
        for stage in (1, 2, 3)
    }


@pytest.mark.parametrize(
    "precision", ["fp32", "bf16", pytest.param("fp16", marks=pytest.mark.thorough)]
)
def test_two_ranks_train_what_one_process_trains(tmp_path: Path, precision: str) -> None:
    seen = verify(tmp_path, "all", precision=precision)
    assert seen.results() == TWO | of_deepspeed(2, precision)
    assert seen.exit_codes == {0}


def test_four_ranks_train_what_one_process_trains(tmp_path: Path) -> None:
    seen = verify(tmp_path, "all", world_size=4, precision="bf16")
    assert seen.results() == FOUR | of_deepspeed(4)
    assert seen.exit_codes == {0}


@pytest.mark.thorough
def test_so_they_do_in_micro_batches(tmp_path: Path) -> None:
    seen = verify(tmp_path, "all", world_size=4, micro_batches=4, global_batch=16)
    left_out = {
        f"{name} dp=4 static_graph": f"{name} on dp=4: {STATIC}" for name in ("ddp", "zero1")
    }
    assert seen.results() == FOUR | of_deepspeed(4) | left_out
    assert {row["micro_batches"] for row in seen.rows if row["result"] == "pass"} == {4}
    assert seen.exit_codes == {0}


def test_in_fp32_the_bounds_are_tight(tmp_path: Path) -> None:
    (row,) = verify(tmp_path, "ddp").rows
    bounds = {kind: worst["bound"] for kind, worst in row["worst"].items()}
    assert set(bounds) == {"reference", "loss", "norm", "gradient", "weights"}
    # Of how far they have moved: that is less than they are, and they are what is rounded.
    assert bounds.pop("weights") < 1e-4
    assert max(bounds.values()) < 1e-5


def test_options_are_read_and_told(tmp_path: Path) -> None:
    seen = verify(tmp_path, "zero1", options=(("static_graph", "yes"),))
    assert seen.exit_codes == {2}
    seen = verify(tmp_path, "zero1", options=(("static_graph", "true"),))
    assert seen.results() == {"zero1 dp=2 static_graph": "pass"}
    assert seen.rows[0]["options"] == {"static_graph": "true"}


def compression_on_gloo() -> None:
    """Let gloo compress gradients, too: torch refuses a hook of this name, not what it does."""

    def hook(group: dist.ProcessGroup, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        return bf16_compress_hook(group, bucket)

    def no_obstacle(_recipe: Recipe, _config: MiniGPTConfig) -> str:
        return ""

    patch = pytest.MonkeyPatch()
    patch.setattr(ddp, "bf16_compress_hook", hook)
    patch.setattr(ddp, "obstacle", no_obstacle)


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_rounding_of_compressed_gradients_is_in_their_bounds(
    tmp_path: Path, world_size: int
) -> None:
    options = (("bf16_compression", "true"),)
    seen = verify(tmp_path, "ddp", compression_on_gloo, options=options, world_size=world_size)
    assert seen.results() == {f"ddp dp={world_size} bf16_compression": "pass"}
    (row,) = seen.rows
    assert 1e-3 < row["worst"]["gradient"]["relative"] < row["worst"]["gradient"]["bound"] < 0.1


@pytest.mark.parametrize("name", strategy_names())
def test_a_strategy_has_what_the_others_rely_on(name: str) -> None:
    strategy: Any = strategy_named(name)
    assert strategy.__doc__
    strategy.Options()
    for world_size in (1, 2, 4, 8):
        for mesh in strategy.meshes(world_size):
            assert set(mesh) <= set(strategy.AXES)
    assert set(strategy.DATA_AXES) <= set(strategy.AXES)
