import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ddpcheck.errors import UsageError
from ddpcheck.train.checkpoint_folder import CheckpointFolder, read_manifest, whole_manifest
from ddpcheck.train.manifest import Manifest, Past, Position, Terms, other_training

TERMS = Terms(model="M", text="1:1", global_batch=8, steps=300)


def manifest(step: int) -> Manifest:
    past = Past(step=step, loss=((1, 0.1 + 0.2), (2, float("inf"))), timed_s=1.5, resumed_at=(3,))
    return Manifest(
        terms=TERMS,
        strategy="ddp",
        mesh={"dp": 2},
        world_size=2,
        past=past,
        position=Position(epoch=1, samples=step * 8),
        scaler={"scale": 4096.0, "growth_interval": 2000},
    )


def written(path: Path, *steps: int) -> CheckpointFolder:
    folder = CheckpointFolder(path)
    folder.prepare()
    for step in steps:
        folder.begin(step)
        (folder.draft(step) / "weights").write_bytes(bytes(range(100)))
        folder.complete(step, manifest(step))
    return folder


def names(folder: CheckpointFolder) -> list[str]:
    return sorted(each.name for each in folder.path.iterdir())


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    latest = written(tmp_path / "a" / "b", 4).latest()
    assert latest is not None
    assert latest.name == "step-00000004"
    read = whole_manifest(latest)
    assert msgspec.structs.replace(read, files={}) == manifest(4)
    assert type(read.scaler["growth_interval"]) is int
    assert read.files["weights"].size_bytes == 100


def test_the_newest_counts_and_one_more_is_kept(tmp_path: Path) -> None:
    folder = written(tmp_path, 4, 8, 12)
    assert names(folder) == ["step-00000008", "step-00000012"]
    assert folder.latest() == tmp_path / "step-00000012"


def test_where_nothing_is_there_is_no_latest(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").touch()
    (tmp_path / "step-1").mkdir()
    assert CheckpointFolder(tmp_path).latest() is None
    assert CheckpointFolder(tmp_path / "missing").latest() is None


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("call", ["mkdir", "open", "rename", "fsync"])
@pytest.mark.parametrize("count", range(4))
def test_wherever_a_write_ends_the_last_good_one_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, count: int
) -> None:
    folder = written(tmp_path, 4, 8)
    calls = 0

    def mortal(usual: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > count:
                raise Killed
            return usual(*args, **options)

        return called

    owner: Any = os if call == "fsync" else Path
    with monkeypatch.context() as patch:
        patch.setattr(owner, call, mortal(getattr(owner, call)))
        with suppress(Killed):
            written(tmp_path, 12)
    latest = folder.latest()
    assert latest is not None
    assert whole_manifest(latest).past.step == int(latest.name[-8:]) >= 8
    # The next one clears what is left of it.
    shutil.rmtree(tmp_path / "step-00000012", ignore_errors=True)
    assert names(written(tmp_path, 12)) == ["step-00000008", "step-00000012"]


def test_all_can_be_removed(tmp_path: Path) -> None:
    folder = written(tmp_path, 4, 8)
    folder.clear()
    assert names(folder) == []


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:50])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (cut, "weights has 50 bytes instead of 100"),
        (flip, "weights has other contents than were written"),
        (Path.unlink, "weights cannot be read .*No such file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, harm: Callable[[Path], None], told: str) -> None:
    latest = written(tmp_path, 4).latest()
    assert latest is not None
    harm(latest / "weights")
    with pytest.raises(UsageError, match=told):
        whole_manifest(latest)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no checkpoint of ddpcheck train: .*No such file"),
        (b"", "cannot read .*manifest.json"),
        (b"{}", "cannot read .*missing required field"),
        (b"\xff\xfe", "cannot read .*manifest.json"),
    ],
)
def test_what_is_no_checkpoint_of_ours_is_told(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(UsageError, match=told):
        read_manifest(tmp_path)


def test_a_newer_format_is_told(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format_version": 2, "past": "otherwise"}')
    with pytest.raises(UsageError, match="format version 2; this is for 1"):
        read_manifest(tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--checkpoint-dir"):
        CheckpointFolder(tmp_path / "file" / "below").prepare()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"model": "N"}, "it is of M, and this is N"),
        ({"text": "2:2"}, "--data"),
        ({"global_batch": 16}, "--global-batch 8, not 16"),
        ({"steps": 100}, "--steps 300, not 100"),
    ],
)
def test_another_training_is_told_from_this_one(changes: dict[str, Any], told: str) -> None:
    asked = msgspec.structs.replace(TERMS, **changes)
    assert told in other_training(TERMS, asked)
    assert bool(told) == bool(other_training(TERMS, asked))
