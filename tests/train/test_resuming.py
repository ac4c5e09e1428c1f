"""From which checkpoint a training goes on: decided from files alone."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_checkpoint_folder import TERMS, written

from ddpcheck.errors import UsageError
from ddpcheck.train.checkpoint_folder import CheckpointFolder
from ddpcheck.train.resuming import checkpoint_to_resume, restarted


@pytest.mark.parametrize(
    ("environ", "again"),
    [
        ({}, False),
        ({"TORCHELASTIC_RESTART_COUNT": "0"}, False),
        ({"TORCHELASTIC_RESTART_COUNT": "2"}, True),
        ({"SLURM_RESTART_COUNT": "1"}, True),
        ({"SLURM_RESTART_COUNT": ""}, False),
    ],
)
def test_a_launcher_says_that_it_starts_anew(environ: dict[str, str], again: bool) -> None:
    assert restarted(environ) is again


def resume(folder: CheckpointFolder, *, asked: bool = True, again: bool = False) -> Path | None:
    return checkpoint_to_resume(folder, TERMS, asked=asked, again=again)


@pytest.mark.parametrize(("asked", "again"), [(True, False), (False, True), (True, True)])
def test_it_goes_on_from_the_newest(tmp_path: Path, asked: bool, again: bool) -> None:
    found = resume(written(tmp_path, 4, 8), asked=asked, again=again)
    assert found == tmp_path / "step-00000008"


def test_what_broke_before_its_first_checkpoint_begins_anew(tmp_path: Path) -> None:
    assert resume(CheckpointFolder(tmp_path), asked=False, again=True) is None


@pytest.mark.parametrize("again", [False, True])
def test_nothing_to_resume_is_told(tmp_path: Path, again: bool) -> None:
    with pytest.raises(UsageError, match=r"no checkpoint in .* leave out --resume"):
        resume(CheckpointFolder(tmp_path), again=again)


def test_an_unfinished_training_is_not_thrown_away(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stopped after step 4 of 300: go on with --resume"):
        resume(written(tmp_path, 4), asked=False)
    assert resume(written(tmp_path, 300), asked=False) is None


@pytest.mark.parametrize("change", [{"global_batch": 16}, {"steps": 5}, {"text": "-"}])
def test_another_training_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    folder = written(tmp_path, 4)
    asked = msgspec.structs.replace(TERMS, **change)
    with pytest.raises(UsageError, match="cannot resume from"):
        checkpoint_to_resume(folder, asked, asked=True, again=False)


def test_a_damaged_one_names_the_way_to_the_one_before(tmp_path: Path) -> None:
    folder = written(tmp_path, 4, 8)
    (tmp_path / "step-00000008" / "weights").write_bytes(b"")
    with pytest.raises(UsageError, match="remove it to resume from the one before"):
        resume(folder)
