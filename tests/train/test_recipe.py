import subprocess
import sys
from collections.abc import Mapping

import msgspec
import pytest

from ddpcheck.errors import UsageError
from ddpcheck.finding import Recommendation, Scalar
from ddpcheck.measures.mesh import Axis
from ddpcheck.settings import TrainSettings
from ddpcheck.train.recipe import Recipe, rank_batch, recipe_from


def made(
    settings: TrainSettings, advice: Mapping[str, Scalar] | None = None, *, gpus: bool = False
) -> Recipe:
    recommended = {
        name: Recommendation(value, "measured") for name, value in (advice or {}).items()
    }
    return recipe_from(settings, recommended, gpus=gpus)


def test_without_advice_torchs_defaults_hold() -> None:
    some = Recipe(strategy="ddp", backend="gloo", device="cpu", micro_batches=0)
    assert made(TrainSettings()) == some
    on_gpus = msgspec.structs.replace(some, backend="nccl", device="cuda")
    assert made(TrainSettings(), gpus=True) == on_gpus


def test_the_report_is_followed() -> None:
    advice: dict[str, Scalar] = {
        "backend": "nccl",
        "precision": "bf16",
        "find_unused_parameters": True,
        "gradient_as_bucket_view": True,
        "bucket_cap_mb": 50,
        "dataloader_workers": 2,
        "sync_batchnorm": True,
    }
    recipe = made(TrainSettings(), advice, gpus=True)
    assert recipe == Recipe(
        strategy="ddp",
        backend="nccl",
        device="cuda",
        precision="bf16",
        find_unused_parameters=True,
        gradient_as_bucket_view=True,
        bucket_cap_mb=50.0,
        dataloader_workers=2,
        sync_batchnorm=True,
        micro_batches=0,
    )


def test_the_users_word_wins() -> None:
    settings = TrainSettings(backend="gloo", precision="fp32")
    recipe = made(settings, {"backend": "nccl", "device": "cuda", "precision": "bf16"}, gpus=True)
    assert (recipe.backend, recipe.device, recipe.precision) == ("gloo", "cpu", "fp32")


def test_a_device_alone_decides_the_backend() -> None:
    assert made(TrainSettings(), {"device": "cpu"}, gpus=True).backend == "gloo"
    assert made(TrainSettings(), {"device": "cuda:0"}, gpus=True).backend == "nccl"


def test_advice_of_a_newer_version_is_left_out() -> None:
    assert made(TrainSettings(), {"warp_drive": 9}) == made(TrainSettings())


@pytest.mark.parametrize(
    ("settings", "advice", "told"),
    [
        (TrainSettings(backend="mpi"), {}, "--backend mpi"),
        (TrainSettings(backend="nccl"), {}, "needs a GPU"),
        (TrainSettings(precision="int8"), {}, "--precision int8"),
        (TrainSettings(), {"dataloader_workers": "many"}, "dataloader_workers"),
    ],
)
def test_what_cannot_be_done_is_refused(
    settings: TrainSettings, advice: dict[str, Scalar], told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        made(settings, advice)


def test_mesh_options_and_micro_batches_are_as_asked() -> None:
    settings = TrainSettings(
        strategy="tp",
        mesh=(Axis("dp", 2), Axis("tp", 4)),
        options=(("schedule", "gpipe"),),
        micro_batches=3,
    )
    recipe = made(settings)
    assert (recipe.strategy, recipe.mesh) == ("tp", {"dp": 2, "tp": 4})
    assert (recipe.options, recipe.micro_batches) == ({"schedule": "gpipe"}, 3)


def test_ranks_share_the_batch_equally() -> None:
    assert rank_batch(32, 4) == 8


@pytest.mark.parametrize(("batch", "use"), [(32, 33), (1, 3), (0, 3), (-5, 3)])
def test_a_batch_that_cannot_be_shared_is_refused(batch: int, use: int) -> None:
    with pytest.raises(UsageError, match=f"use {use}$"):
        rank_batch(batch, 3)


def test_gate_and_recipe_need_no_torch() -> None:
    code = (
        "import ddpcheck.train.gate, ddpcheck.train.recipe, sys; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
