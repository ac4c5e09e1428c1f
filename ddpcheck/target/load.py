"""Find the factory that the user named, call it, and hold it to its contract."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from torch import nn
from torch.optim import Optimizer

from ddpcheck.errors import TargetError
from ddpcheck.target.builtin import BUILT_IN
from ddpcheck.target.target import Target
from ddpcheck.watch.callsite import user_frame

Factory = Callable[[], Any]


def is_built_in(spec: str) -> bool:
    """Return whether ``spec`` names a target that comes with ddpcheck."""
    return spec in BUILT_IN


def source_of(spec: str) -> str:
    """Return the file of the user's target that was found, or '' for a built-in one."""
    place = spec.rpartition(":")[0]
    if is_built_in(spec) or place.endswith(".py"):
        return str(Path(place).resolve()) if place else ""
    return getattr(sys.modules.get(place), "__file__", None) or ""


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
    except (Exception, SystemExit) as error:
        raise TargetError(f"--target {spec}: the factory raised {_at_user_line(error)}") from error
    fault = _fault_of(made)
    if fault:
        raise TargetError(f"--target {spec}: {fault}; see 'ddpcheck.target.target.Target'")
    return _as_target(made)


def _import(place: str, spec: str) -> ModuleType:
    try:
        return _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    except (Exception, SystemExit) as error:
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
    if not isinstance(made, Target):
        if not isinstance(made, tuple) or len(made) not in (3, 4, 5):
            kind = type(made).__name__
            return f"the factory returned {kind}, not a Target or (model, loader, loss)"
        made = Target(*made)
    return next(iter(_faults_in(made)), "")


def _faults_in(made: Any) -> Iterator[str]:
    def kind(part: object) -> str:
        return type(part).__name__

    if not isinstance(made.model, nn.Module):
        yield f"the model is {kind(made.model)}, not a torch.nn.Module"
    if not hasattr(made.loader, "__iter__"):
        yield f"the loader is {kind(made.loader)}, which cannot be iterated"
    if not callable(made.loss):
        yield f"the loss is {kind(made.loss)}, which cannot be called"
    if made.optimizer is not None and not isinstance(made.optimizer, Optimizer):
        yield f"the optimizer is {kind(made.optimizer)}, not a torch.optim.Optimizer"
    if made.wrap is not None and not callable(made.wrap):
        yield f"the wrap is {kind(made.wrap)}, which cannot be called"


def _as_target(made: Target | tuple[Any, ...]) -> Target:
    return made if isinstance(made, Target) else Target(*made)


def _at_user_line(error: BaseException) -> str:
    shown = " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}:{error.lineno})"
    frame = user_frame(error)
    place = f" ({frame.filename}:{frame.lineno})" if frame else ""
    return f"{type(error).__name__}: {shown}{place}"
