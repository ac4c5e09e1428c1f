"""A training under DeepSpeed that goes on from a checkpoint, on real gloo ranks."""

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from packages import require
from torch import Tensor, nn
from verified import nothing, train

from ddpcheck.target.minigpt import Layer
from ddpcheck.train.engine_state import EngineState

LAST = "step-00000012"


def drop_at_random() -> None:
    """Let each layer drop a tenth of what it gives: a training that draws random numbers."""
    usual = Layer.forward

    def forward(layer: Layer, x: Tensor) -> Tensor:
        return nn.functional.dropout(usual(layer, x), p=0.1)

    mock.patch.object(Layer, "forward", forward).start()


def forget_moments() -> None:
    """Plant an engine that puts back nothing but the weights, as a state dict of the model has."""
    rightly = EngineState.put_back

    def put_back(self: EngineState, state: dict[str, Any]) -> None:
        rightly(self, {**state, "optimizer": self.read()["optimizer"]})

    mock.patch.object(EngineState, "put_back", put_back).start()


def go_on(folder: Path, strategy: str, **changes: Any) -> list[list[float]]:
    """Return the losses of a training that goes on from step 8, as if the last four were not."""
    shutil.rmtree(folder / LAST)
    training = train(folder, strategy, resume=True, **changes)
    assert training["resumed_at"] == [8]
    return list(training["loss"])


def zero(stage: int, **changes: Any) -> dict[str, Any]:
    return {"options": (("zero", str(stage)),), **changes}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(zero(1, precision="bf16"), marks=pytest.mark.thorough),
        pytest.param(zero(2, micro_batches=2), marks=pytest.mark.thorough),
        pytest.param(zero(3), marks=pytest.mark.thorough),
        zero(3, world_size=3, global_batch=6),  # no tensor can be cut in three parts alike
    ],
    ids=["zero1", "zero2", "zero3", "three-ranks"],
)
def test_resumed_losses_are_those_of_the_uninterrupted_run(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    require("deepspeed")
    whole = train(tmp_path, "deepspeed", drop_at_random, **changes)
    assert go_on(tmp_path, "deepspeed", plant=drop_at_random, **changes) == whole["loss"]


@pytest.mark.thorough
def test_the_moments_matter(tmp_path: Path) -> None:
    require("deepspeed")
    whole = train(tmp_path, "deepspeed", nothing, **zero(3))
    assert go_on(tmp_path, "deepspeed", plant=forget_moments, **zero(3)) != whole["loss"]


@pytest.mark.parametrize(
    ("wrote", "reads", "ranks"),
    [
        pytest.param("deepspeed", "deepspeed", 4, marks=pytest.mark.thorough),
        ("deepspeed", "single", 1),
        pytest.param("fsdp", "deepspeed", 2, marks=pytest.mark.thorough),
    ],
)
def test_another_strategy_on_other_ranks_reads_it(
    tmp_path: Path, wrote: str, reads: str, ranks: int
) -> None:
    require("deepspeed")
    losses = [loss for _, loss in train(tmp_path, wrote)["loss"]]
    again = [loss for _, loss in go_on(tmp_path, reads, world_size=ranks)]
    # Sums in another order: what fp32 allows in four steps.
    assert again == pytest.approx(losses, rel=1e-5)
