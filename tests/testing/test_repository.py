"""A repository of a user's: its tests with the plug-in, sound and with a fault in it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent / "repository"
# id -> what stands there, what is planted in its place, and the line that is told.
FAULTS = {
    "gradients/replicas-differ": ("(model(inputs)", "(model.module(inputs)", "loss.backward()"),
    "data/epoch-not-set": ("sampler.set_epoch(epoch)", "", "for inputs, labels in loader:"),
}


def run(folder: Path, *words: str) -> str:
    """Run the repository's tests; returns what pytest prints."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the repository."""
    return shutil.copytree(REPOSITORY, tmp_path / "repository")


def test_a_sound_repository_passes(folder: Path) -> None:
    printed = run(folder)
    assert "4 passed" in printed, printed


@pytest.mark.parametrize(
    "fault",
    [
        "gradients/replicas-differ",
        pytest.param("data/epoch-not-set", marks=pytest.mark.thorough),
    ],
)
def test_a_planted_fault_fails_with_file_and_line(folder: Path, fault: str) -> None:
    file = folder / "training.py"
    before, after, told_at = FAULTS[fault]
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    printed = run(folder, "-k", "sound")
    assert "1 failed" in printed, printed
    line = 1 + [each.strip() for each in text.splitlines()].index(told_at)
    assert re.search(rf"^E? *(Failed: )?{fault}: .*training\.py:{line}$", printed, re.MULTILINE), (
        printed
    )
