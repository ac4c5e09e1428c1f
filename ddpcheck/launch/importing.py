"""How fork servers import what their ranks stay with to their end."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def imported_for_good() -> Generator[None]:
    """Let nothing be searched for garbage meanwhile, nor what was imported ever after.

    An import makes a million objects and little garbage. Importing torch and its compiler takes a third
    less time without collections, and a process that need not search them again at its end leaves in
    0.2 s instead of 0.9 s (torch 2.13). In a forked process collections would also touch, and so copy,
    every page that holds an object.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
