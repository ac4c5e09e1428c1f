"""Find the factory that the user named, call it, and hold it to its contract."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from torch import nn

from ddpcheck.errors import TargetError
from ddpcheck.target.builtin import BUILT_IN
from ddpcheck.target.target import Target
from ddpcheck.watch.callsite import user_frame

Factory = Callable[[], Any]


def is_built_in(spec: str) -> bool:
    """Return whether ``spec`` names a target that comes with ddpcheck."""
    return spec in BUILT_IN


def find_factory(spec: str, data: str, rank: int, world_size: int) -> Factory:
    """Return the factory for ``minigpt``, ``MODULE:FACTORY`` or ``path/to/file.py:FACTORY``.

    Raises TargetError when there is no such factory.
    """
    if is_built_in(spec):
        return lambda: BUILT_IN[spec](data, rank, world_size)
    place, separator, name = spec.rpartition(":")
    if not separator:
        names = ", ".join(BUILT_IN)
        raise TargetError(
            f"--target {spec}: name a built-in target ({names}), MODULE:FACTORY or FILE.py:FACTORY"
        )
    factory = getattr(_import(place, spec), name, None)
    if not callable(factory):
        raise TargetError(f"--target {spec}: {place} has no function {name}")
    return cast(Factory, factory)


def build(factory: Factory, spec: str) -> Target:
    """Return what the factory makes; raises TargetError when that is no target."""
    try:
        made = factory()
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(f"--target {spec}: the factory raised {_at_user_line(error)}") from error
    fault = _fault_of(made)
    if fault:
        raise TargetError(f"--target {spec}: {fault}; see 'ddpcheck.target.target.Target'")
    return _as_target(made)


def _import(place: str, spec: str) -> ModuleType:
    try:
        return _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except Exception as error:
        raise TargetError(
            f"--target {spec}: {place} does not import: {_at_user_line(error)}"
        ) from error


def _import_module(name: str) -> ModuleType:
    # As with python -m: the user's working directory comes first.
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _import_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {file}")
    # As with a script: its own folder comes first, so that it finds its neighbours.
    sys.path.insert(0, str(file.resolve().parent))
    found = importlib.util.spec_from_file_location(file.stem, file)
    if found is None or found.loader is None:
        raise ImportError(f"{file} is no Python source")
    module = importlib.util.module_from_spec(found)
    sys.modules[file.stem] = module  # pickling looks a class's module up there
    found.loader.exec_module(module)
    return module


def _fault_of(made: Any) -> str:
    if isinstance(made, Target):
        made = (made.model, made.loader, made.loss)
    if not isinstance(made, tuple) or len(made) not in (3, 4, 5):
        return f"the factory returned {type(made).__name__}, not a Target or (model, loader, loss)"
    model, loader, loss = made[:3]
    if not isinstance(model, nn.Module):
        return f"the model is {type(model).__name__}, not a torch.nn.Module"
    if not hasattr(loader, "__iter__"):
        return f"the loader is {type(loader).__name__}, which cannot be iterated"
    return "" if callable(loss) else f"the loss is {type(loss).__name__}, which cannot be called"


def _as_target(made: Target | tuple[Any, ...]) -> Target:
    return made if isinstance(made, Target) else Target(*made)


def _at_user_line(error: Exception) -> str:
    shown = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}:{error.lineno})"
    frame = user_frame(error)
    place = f" ({frame.filename}:{frame.lineno})" if frame else ""
    return f"{type(error).__name__}: {shown}{place}"
