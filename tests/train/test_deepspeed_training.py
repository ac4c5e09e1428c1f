"""DeepSpeed's ZeRO on real gloo ranks, compared with one process; and where it cannot run."""

import os
import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import torch
from packages import require
from torch import Tensor
from verified import Plant, verify

from ddpcheck.errors import UsageError
from ddpcheck.target.minigpt import summed_next_byte_loss
from ddpcheck.train.micro_batches import micro_batches
from ddpcheck.train.parallel import Place, Scale
from ddpcheck.train.planning import plan
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import deepspeed

LOCK = Path("deepspeed_shm_comm") / "lock"


def not_installed(_: str) -> str:
    raise PackageNotFoundError


def too_old(_: str) -> str:
    return "0.17.6"


def new_enough(_: str) -> str:
    return "0.18.0"


def without_deepspeed(rank: str) -> None:
    """Plant that this rank's host has no DeepSpeed."""
    if os.environ["RANK"] == rank:
        pytest.MonkeyPatch().setattr(deepspeed, "version", not_installed)


def builds_kept_in(folder: Path) -> None:
    """Plant that operations are built, and their locks lie, in this folder."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)


def no_clipping() -> None:
    """Plant settings whose clipping is off, while the loop goes by the norm of one process."""
    rightly = deepspeed.settings

    def settings(place: Place) -> dict[str, Any]:
        return rightly(place) | {"gradient_clipping": 0.0}

    pytest.MonkeyPatch().setattr(deepspeed, "settings", settings)


def step_after_the_last_only() -> None:
    """Plant a loop that calls the engine's step once a batch, as one calls an optimizer's."""

    def backward(
        self: deepspeed.EngineTraining, batch: Tensor, total: Tensor, scale: Scale
    ) -> Tensor:
        share = torch.zeros(())
        for piece, _ in micro_batches(batch, self.place.recipe.micro_batches):
            loss = summed_next_byte_loss(self.engine, piece) / total
            self.engine.backward(scale(loss * self.place.everyone.size), scale_wrt_gas=False)
            share = share + loss.detach()
        return share

    pytest.MonkeyPatch().setattr(deepspeed.EngineTraining, "backward", backward)


def zero(stage: int, **changes: Any) -> dict[str, Any]:
    return {"options": (("zero", str(stage)),), "micro_batches": 2, **changes}


@pytest.mark.thorough  # --strategy all verifies each of them, too
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_two_ranks_train_what_one_process_trains(
    tmp_path: Path, stage: int, precision: str
) -> None:
    require("deepspeed")
    seen = verify(tmp_path, "deepspeed", **zero(stage, precision=precision))
    assert seen.results() == {f"deepspeed dp=2 zero={stage}": "pass"}
    assert seen.exit_codes == {0}


def test_four_ranks_train_what_one_process_trains(tmp_path: Path) -> None:
    require("deepspeed")
    seen = verify(tmp_path, "deepspeed", world_size=4, micro_batches=1)
    assert seen.results() == {"deepspeed dp=4": "pass"}


@pytest.mark.parametrize("plant", [no_clipping, step_after_the_last_only])
def test_errors_that_people_make_with_it_are_found_in_the_first_weights(
    tmp_path: Path, plant: Plant
) -> None:
    require("deepspeed")
    seen = verify(tmp_path, "deepspeed", plant, **zero(3))
    assert seen.broken()[:2] == ("weights", 1)
    assert seen.exit_codes == {1}


def test_the_lock_of_a_build_that_was_killed_hangs_nothing(tmp_path: Path) -> None:
    require("deepspeed")
    builds = tmp_path / "builds"
    (builds / LOCK).parent.mkdir(parents=True)
    (builds / LOCK).touch()
    seen = verify(tmp_path, "deepspeed", partial(builds_kept_in, builds))
    assert seen.results() == {"deepspeed dp=2": "pass"}
    assert [file for file in builds.rglob("*") if file.is_file()] == [builds / LOCK]


@pytest.mark.parametrize("lacking", ["0", "1"])
def test_where_one_host_lacks_it_all_ranks_end(tmp_path: Path, lacking: str) -> None:
    require("deepspeed")
    seen = verify(tmp_path, "deepspeed", partial(without_deepspeed, lacking))
    assert (seen.exit_codes, seen.rows) == ({2}, [])


def test_without_it_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepspeed, "version", not_installed)
    recipe = Recipe(strategy="deepspeed", backend="gloo", device="cpu")
    with pytest.raises(UsageError, match=re.escape("pip install 'ddpcheck[deepspeed]'")):
        plan(recipe, 2, 8)


@pytest.mark.parametrize("version", [not_installed, too_old])
def test_without_it_the_others_are_compared_all_the_same(
    monkeypatch: pytest.MonkeyPatch, version: Callable[[str], str]
) -> None:
    monkeypatch.setattr(deepspeed, "version", version)
    asked = Recipe(strategy="all", backend="gloo", device="cpu")
    planned = plan(asked, 2, 8)
    reasons = {each.strategy: each.reason for each in planned.misfits}
    assert reasons["deepspeed"] == f"deepspeed on dp=2: {deepspeed.INSTALL}"
    assert "ddp" in {each.strategy for each in planned.recipes}


def test_a_stage_that_there_is_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepspeed, "version", new_enough)
    recipe = Recipe(strategy="deepspeed", backend="gloo", device="cpu", options={"zero": "4"})
    with pytest.raises(UsageError, match="--options of deepspeed: "):
        plan(recipe, 2, 8)
