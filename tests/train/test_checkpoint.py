"""Training that goes on from a checkpoint, on real gloo ranks."""

import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from verified import nothing, train, trained

from ddpcheck.target.minigpt import Layer, MiniGPT, MiniGPTConfig
from ddpcheck.train.checkpoint_folder import CheckpointFolder
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import strategy_named, strategy_names

LAST = "step-00000012"
PARALLEL = [name for name in strategy_names() if name not in ("single", "deepspeed")]


def drop_at_random() -> None:
    """Let each layer drop a tenth of what it gives: a training that draws random numbers."""
    usual = Layer.forward

    def forward(layer: Layer, x: Tensor) -> Tensor:
        return nn.functional.dropout(usual(layer, x), p=0.1)

    mock.patch.object(Layer, "forward", forward).start()


def resumed(folder: Path, strategy: str, **changes: Any) -> dict[str, Any]:
    """Go on from step 8, as if the last four steps had not been."""
    shutil.rmtree(folder / LAST)
    training = train(folder, strategy, resume=True, **changes)
    assert training["resumed_at"] == [8]
    return training


def fewest_ranks(name: str) -> int:
    """Return on how many ranks, two or four, a strategy can run."""
    strategy = strategy_named(name)
    recipe = Recipe(strategy=name, backend="gloo", device="cpu", mesh=dict(strategy.meshes(2)[0]))
    return 4 if strategy.obstacle(recipe, MiniGPTConfig()) else 2


@pytest.mark.parametrize("strategy", PARALLEL)
def test_resumed_losses_are_those_of_the_uninterrupted_run(tmp_path: Path, strategy: str) -> None:
    # Dropout is nothing that tensor parallelism here is made for: its ranks hold parts of what drops.
    plant = nothing if strategy == "tp" else drop_at_random
    ranks = fewest_ranks(strategy)
    whole = train(tmp_path, strategy, plant, world_size=ranks)
    assert len(whole["loss"]) == 12
    again = resumed(tmp_path, strategy, plant=plant, world_size=ranks)
    assert again["loss"] == whole["loss"]


@pytest.mark.thorough
def test_the_scaler_goes_on_too(tmp_path: Path) -> None:
    whole = train(tmp_path, precision="fp16")
    again = resumed(tmp_path, "ddp", precision="fp16")
    assert again["loss"] == whole["loss"]


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of twelve steps with zero1."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder, "zero1")
    return folder


@pytest.mark.parametrize(
    ("strategy", "world_size"), [("single", 1), ("tp", 2), ("pp", 4), ("hsdp", 4), ("zero1", 4)]
)
def test_another_strategy_on_other_ranks_reads_it(
    tmp_path: Path, whole_run: Path, strategy: str, world_size: int
) -> None:
    folder = shutil.copytree(whole_run, tmp_path / "copy")
    whole = json.loads((folder / "report.json").read_text())["training"]
    again = resumed(folder, strategy, world_size=world_size)
    losses = [loss for _, loss in whole["loss"]]
    # Sums in another order: what fp32 allows in four steps.
    assert [loss for _, loss in again["loss"]] == pytest.approx(losses, rel=1e-5)


def test_the_consolidated_file_is_the_bare_model(whole_run: Path) -> None:
    saved = torch.load(whole_run / LAST / "consolidated.pt", weights_only=True)
    MiniGPT(MiniGPTConfig()).load_state_dict(saved["model"])
    assert (saved["step"], saved["epoch"]) == (12, 0)


def be_elsewhere() -> None:
    """Let rank 1 look for checkpoints where rank 0 has none, as on a host with a disk of its own."""
    if os.environ["RANK"] == "1":

        def draft(own: CheckpointFolder, step: int) -> Path:
            return own.named(step).with_suffix(".of-another-host")

        mock.patch.object(CheckpointFolder, "draft", draft).start()


def test_a_folder_that_ranks_do_not_share_is_refused_before_they_train(tmp_path: Path) -> None:
    codes, training = trained(tmp_path, "ddp", be_elsewhere, steps=2)
    assert codes == {2}
    assert not training


def test_the_weights_alone_need_no_shared_folder(tmp_path: Path) -> None:
    codes, _ = trained(tmp_path, "fsdp", be_elsewhere, steps=2, checkpoint_every=0)
    assert codes == {0}
    kept = tmp_path / "step-00000002"
    assert {each.name for each in kept.iterdir()} == {"consolidated.pt", "manifest.json"}
