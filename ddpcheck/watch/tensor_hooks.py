"""Hooks that a script puts on tensors, and that make another gradient of what came."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from ddpcheck.watch.replaced import Around

_NOT_THE_SCRIPTS = ("torch", "ddpcheck")


class TensorHooks:
    """Stands around ``Tensor.register_hook``; tells ``weighed`` each time a gradient is changed."""

    def __init__(self, emit: Callable[..., None]) -> None:
        self._emit = emit

    def put_on(self, original: Around, tensor: Any, hook: Any) -> Any:
        """Put on a hook that does what the script's own does, and tells."""
        if torch.compiler.is_compiling() or not callable(hook) or not _is_the_scripts(hook):
            return original(tensor, hook)

        # One that has no name, a partial say, is wrapped as well.
        @functools.wraps(hook)
        def told(gradient: Any) -> Any:
            version = _version_of(gradient)
            made = hook(gradient)
            with suppress(Exception):  # the script must not notice
                if _version_of(gradient) != version:
                    self._emit("weighed", None, None)
                elif made is not None and made is not gradient:
                    self._emit("weighed", gradient, made)
            return made

        return original(tensor, told)


def _version_of(gradient: torch.Tensor) -> int | None:
    with suppress(RuntimeError):  # some have none
        return gradient._version
    return None


def _is_the_scripts(hook: Any) -> bool:
    inner = getattr(hook, "func", hook)
    module = getattr(inner, "__module__", None) or type(inner).__module__
    return str(module).partition(".")[0] not in _NOT_THE_SCRIPTS
