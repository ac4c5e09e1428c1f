"""The checkpoint: written in one piece, by one rank, while all wait."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ddpcheck.errors import UsageError

CHECKPOINT_NAME = "checkpoint.pt"


def prepare_folder(folder: Path) -> None:
    """Make the folder for checkpoints; raises UsageError if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"cannot write to {folder}: choose another --checkpoint-dir")


def write_checkpoint(file: Path, state: dict[str, Any]) -> None:
    """Write the state so that ``file`` is, at any moment, an old or a new checkpoint in full.

    Readers get it back by ``torch.load(file, map_location="cpu", weights_only=True)``.
    """
    draft = file.with_suffix(".tmp")
    try:
        with draft.open("wb") as stream:
            torch.save(state, stream)
            # A crash of the machine after the rename must not leave an empty file.
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot write {path}: {error.strerror}; choose another --checkpoint-dir")
