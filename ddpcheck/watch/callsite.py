"""Which line of the user's code an exception came from."""

from __future__ import annotations

import sysconfig
import traceback

import torch

import ddpcheck

_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))
_NOT_THE_USERS = (*_LIBRARIES, torch.__path__[0], ddpcheck.__path__[0])


def user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost frame outside Python's, installed, torch's and ddpcheck's code.

    None when there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if not frame.filename.startswith(("<", *_NOT_THE_USERS))]
    return theirs[-1] if theirs else None
