"""What cannot be resumed, as the only rank: one line that says what to do, and exit code 2."""

import dataclasses
import re
import resource
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lone_rank import be_the_only_rank
from verified import write_sample

from ddpcheck.report import read_report
from ddpcheck.settings import TrainSettings
from ddpcheck.train.rank import train_rank


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make this process the only rank; returns the folder of its report."""
    be_the_only_rank(monkeypatch, tmp_path)
    return tmp_path


def settings(folder: Path) -> TrainSettings:
    return TrainSettings(
        report=str(folder),
        force=True,
        steps=2,
        global_batch=2,
        checkpoint_every=1,
        checkpoint_dir=str(folder / "kept"),
    )


@pytest.fixture
def kept(alone: Path) -> Path:
    """Train two steps; returns the folder of the two checkpoints."""
    write_sample(alone)
    assert train_rank(settings(alone)) == 0
    return alone / "kept"


def resume(kept: Path, **changes: Any) -> int:
    asked = dataclasses.replace(settings(kept.parent), resume=True)
    return train_rank(dataclasses.replace(asked, **changes))


def truncate(kept: Path) -> None:
    file = kept / "step-00000002" / "__0_0.distcp"
    file.write_bytes(file.read_bytes()[:1000])


def lose_metadata(kept: Path) -> None:
    (kept / "step-00000002" / ".metadata").unlink()


def forge(kept: Path) -> None:
    (kept / "step-00000002" / "manifest.json").write_text("[]")


def replace_by_a_foreign_one(kept: Path) -> None:
    folder = kept / "step-00000002"
    shutil.rmtree(folder)
    folder.mkdir()
    torch.save({"model": {}}, folder / "model.pt")


def lose_all(kept: Path) -> None:
    shutil.rmtree(kept)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (truncate, "__0_0.distcp has 1000 bytes instead of .* remove it to resume from"),
        (lose_metadata, ".metadata cannot be read"),
        (forge, "cannot read .*manifest.json"),
        (replace_by_a_foreign_one, "is no checkpoint of ddpcheck train"),
        (lose_all, "there is no checkpoint in .* leave out --resume"),
    ],
)
def test_what_is_no_whole_checkpoint_is_one_line(
    kept: Path, capfd: pytest.CaptureFixture[str], harm: Callable[[Path], None], told: str
) -> None:
    harm(kept)
    capfd.readouterr()
    assert resume(kept) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match(f"ddpcheck: .*{told}", line)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 3}, "was written with --steps 2, not 3"),
        ({"global_batch": 4}, "was written with --global-batch 2, not 4"),
        ({"data": __file__.replace("test_resume_refused", "test_parity")}, "--data"),
    ],
)
def test_another_training_is_one_line(
    kept: Path, capfd: pytest.CaptureFixture[str], changes: dict[str, Any], told: str
) -> None:
    capfd.readouterr()
    assert resume(kept, **changes) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match(f"ddpcheck: cannot resume from .*{told}", line)


def test_another_model_is_one_line(
    kept: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddpcheck.train.rank.MODEL", "MiniGPT(width=512)")
    capfd.readouterr()
    assert resume(kept) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert re.search(r"it is of MiniGPT\(vocab=256, .* and this is MiniGPT\(width=512\)", line)


def test_what_torch_cannot_read_is_one_line_too(
    kept: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As of a strategy that holds what no other wrote.
    def held(_parallel: object) -> dict[str, object]:
        return {"model": {"no.such.weight": torch.zeros(3)}}

    monkeypatch.setattr("ddpcheck.train.checkpoint.held", held)
    capfd.readouterr()
    assert resume(kept) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert re.match("ddpcheck: ddp cannot read .*, which ddp wrote: .*no.such.weight", line)


def test_the_one_before_is_read_once_a_damaged_one_is_removed(kept: Path) -> None:
    truncate(kept)
    shutil.rmtree(kept / "step-00000002")
    assert resume(kept) == 0
    training = read_report(kept.parent).training
    assert training is not None
    assert training["resumed_at"] == [1]


def test_what_was_at_its_end_ends_again(kept: Path) -> None:
    first = read_report(kept.parent).training
    assert resume(kept) == 0
    second = read_report(kept.parent).training
    assert first is not None
    assert second is not None
    assert second["loss"] == first["loss"]
    assert second["tokens_per_s"] == first["tokens_per_s"]


def test_a_finished_training_gives_way_to_a_new_one(kept: Path) -> None:
    assert train_rank(dataclasses.replace(settings(kept.parent), steps=1)) == 0
    assert [each.name for each in kept.iterdir()] == ["step-00000001"]


def test_weights_alone_are_nothing_to_resume(
    alone: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_sample(alone)
    assert train_rank(dataclasses.replace(settings(alone), checkpoint_every=0)) == 0
    (folder,) = (alone / "kept").iterdir()
    assert sorted(each.name for each in folder.iterdir()) == ["consolidated.pt", "manifest.json"]
    capfd.readouterr()
    assert resume(alone / "kept") == 2
    assert "the weights alone" in capfd.readouterr().err


@pytest.mark.parametrize("checkpoint_every", [0, 1])
def test_a_write_that_fails_is_one_line_and_leaves_the_last_one(
    kept: Path, capfd: pytest.CaptureFixture[str], checkpoint_every: int
) -> None:
    shutil.rmtree(kept / "step-00000002")
    capfd.readouterr()
    with files_of_at_most(1_000_000):
        assert resume(kept, checkpoint_every=checkpoint_every) == 2
    *_, line = capfd.readouterr().err.splitlines()
    assert re.match("ddpcheck: cannot write .*step-00000002", line)
    assert "choose another --checkpoint-dir" in line
    assert resume(kept) == 0


@contextmanager
def files_of_at_most(limit_bytes: int) -> Generator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
