"""Which line of the user's code an exception came from."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Iterator

import torch

import ddpcheck
from ddpcheck.finding import Location

_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib"))
_NOT_THE_USERS = (*_LIBRARIES, torch.__path__[0], ddpcheck.__path__[0])

_APPLY = getattr(torch.autograd.Function.apply, "__code__", None)


def is_users(file: str) -> bool:
    """Return whether a file of code is neither Python's, nor installed, nor ddpcheck's."""
    return not file.startswith(("<", *_NOT_THE_USERS))


def users_line() -> Location | None:
    """Return the innermost line of the user's code that the calling thread is in, if any."""
    return next(users_lines(), None)


def line_of_making(made: object) -> Location | None:
    """Return the innermost line of the user's code that is not in the making of this object itself.

    A class of the user's own has its ``__init__`` call the one that it is derived from.
    """
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        own = code.co_name == "__init__" and frame.f_locals.get("self") is made
        if is_users(code.co_filename) and not own:
            return Location(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back
    return None


def users_lines() -> Iterator[Location]:
    """Yield the lines of the user's code that the calling thread is in, the innermost first."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            yield Location(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back


def is_inside(function: str, package: str) -> bool:
    """Return whether the calling thread is in a function of this name in an installed package."""
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == function and f"/{package}/" in code.co_filename:
            return True
        frame = frame.f_back
    return False


def is_inside_function() -> bool:
    """Return whether the calling thread carries out a torch.autograd.Function."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is _APPLY:
            return True
        frame = frame.f_back
    return False


def user_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return the innermost frame outside Python's, installed, torch's and ddpcheck's code.

    None when there is none.
    """
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if is_users(frame.filename)]
    return theirs[-1] if theirs else None


def users_line_of(error: BaseException) -> Location | None:
    """Return the innermost line of the user's code that an exception went through, if any."""
    frame = user_frame(error)
    return Location(frame.filename, frame.lineno or 0, frame.name) if frame is not None else None
