from pathlib import Path

import pytest
import torch

from ddpcheck.errors import UsageError
from ddpcheck.train.checkpoint import prepare_folder, write_checkpoint


def test_a_checkpoint_is_read_back_without_trusting_it(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.pt"
    write_checkpoint(file, {"step": 1})
    write_checkpoint(file, {"step": 2, "model": {"weight": torch.ones(2)}})
    loaded = torch.load(file, map_location="cpu", weights_only=True)
    assert loaded["step"] == 2
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_failed_write_leaves_the_old_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "checkpoint.pt"
    write_checkpoint(file, {"step": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_checkpoint(file, {"step": 2})
    assert torch.load(file, weights_only=True) == {"step": 1}


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--checkpoint-dir"):
        prepare_folder(tmp_path / "file" / "below")


def test_a_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
