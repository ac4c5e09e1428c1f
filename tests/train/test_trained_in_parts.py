"""Ranks that hold parts of a model train it to the end, and leave a checkpoint of the whole."""

from pathlib import Path

import pytest
import torch
from verified import trained

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig


@pytest.mark.parametrize(
    ("strategy", "mesh", "pieces"), [("fsdp", "dp=2", 1), ("tp", "tp=2", 1), ("pp", "pp=2", 2)]
)
def test_a_checkpoint_of_parts_is_one_of_the_whole(
    tmp_path: Path, strategy: str, mesh: str, pieces: int
) -> None:
    codes, training = trained(tmp_path, strategy, steps=12)
    assert codes == {0}
    assert (training["mesh"], training["micro_batches"]) == (mesh, pieces)
    losses = [loss for _, loss in training["loss"]]
    assert losses[-1] < losses[0] - 0.5
    saved = torch.load(Path(training["checkpoint"], "consolidated.pt"), weights_only=True)
    model = MiniGPT(MiniGPTConfig())
    model.load_state_dict(saved["model"])
    assert saved["step"] == 12
