"""Functions and methods of torch's that are replaced while a script is watched, and put back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

Around = Callable[..., Any]
# Takes the arguments of a call, and those by name; after it, what it returned before them.
Tell = Callable[..., None]


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

    def tell_before(self, owner: Any, name: str, tell: Tell) -> None:
        """Have ``tell(arguments, named)`` called before each call of it."""

        def told(original: Around, *arguments: Any, **named: Any) -> Any:
            _heard(tell, arguments, named)
            return original(*arguments, **named)

        self.put(owner, name, told)

    def tell_after(self, owner: Any, name: str, tell: Tell) -> None:
        """Have ``tell(result, arguments, named)`` called when a call of it has returned."""

        def told(original: Around, *arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            _heard(tell, result, arguments, named)
            return result

        self.put(owner, name, told)

    def close(self) -> None:
        """Put torch's own back."""
        for undo in reversed(self._undo):
            undo()
        self._undo = []


def _heard(tell: Tell, *what: Any) -> None:
    if not torch.compiler.is_compiling():  # what a compiler reads is the original alone
        # What a script may pass there is more than is foreseen here: it must not notice.
        with suppress(Exception):
            tell(*what)
