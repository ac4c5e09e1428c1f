"""Which line of the user's code an exception came from."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

import ddpcheck

_NOT_THE_USERS = (str(Path(torch.__path__[0])), str(Path(ddpcheck.__path__[0])))


def user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost frame outside torch and ddpcheck, or None when there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(("<", *_NOT_THE_USERS))]
    return theirs[-1] if theirs else None
