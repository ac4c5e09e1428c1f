"""Functions and methods of torch's that are replaced while a script is watched, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Around = Callable[..., Any]


class Replaced:
    """What stands in the place of torch's own; ``close`` puts all of it back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, around: Around) -> None:
        """Have ``around(original, ...)`` called instead of an attribute of a class or module."""
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            return around(original, *arguments, **named)

        # Whoever scripts what calls it (torch.jit) compiles torch's own.
        vars(wrapped)["__prepare_scriptable__"] = lambda: original

        def undo() -> None:
            # What others have replaced in the meantime stays.
            if getattr(owner, name) is wrapped:
                setattr(owner, name, original)

        setattr(owner, name, wrapped)
        self._undo.append(undo)

    def close(self) -> None:
        """Put torch's own back."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []
