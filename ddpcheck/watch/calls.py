"""Collectives as Python calls them: which, on what, from where."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

# All ranks must call these alike; sizes may differ between ranks in those of the second line.
ALIKE = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor"),
    *("reduce_scatter", "reduce_scatter_tensor", "barrier", "all_reduce_coalesced"),
    *("all_gather_single", "reduce_scatter_single"),
)
UNEVEN = (
    *("all_to_all", "all_to_all_single", "gather", "scatter", "all_gather_object"),
    *("gather_object", "broadcast_object_list", "scatter_object_list"),
)
TORCHS_OWN = str(Path(torch.__file__).parent)
Tell = Callable[[str, tuple[Any, ...], dict[str, Any]], None]


class Recorder(Protocol):
    """Where calls are noted."""

    def enter_call(self, what: str, site: str) -> Any:
        """Note that the main thread enters a collective; return what ``leave_call`` takes."""

    def leave_call(self, call: Any) -> None:
        """Note that it has left this collective."""


def _tell_nobody(_name: str, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
    """Be told of a call where no one wants to know."""


@contextmanager
def recorded_calls(recorder: Recorder, tell: Tell = _tell_nobody) -> Generator[None]:
    """Note each collective on the world group that is called by torch.distributed's names.

    ``tell`` hears of those on any group, before they begin; what it raises is left alone.
    """
    before = {name: getattr(dist, name) for name in (*ALIKE, *UNEVEN) if hasattr(dist, name)}
    for name, function in before.items():
        _put(name, _noting(name, function, recorder, tell))
    try:
        yield
    finally:
        for name, function in before.items():
            _put(name, function)


def _put(name: str, function: Any) -> None:
    setattr(dist, name, function)
    setattr(distributed_c10d, name, function)


def _noting(
    name: str, function: Callable[..., Any], recorder: Recorder, tell: Tell
) -> Callable[..., Any]:
    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        # What torch calls to carry out another collective is part of that one.
        if frame.f_code.co_filename.startswith(TORCHS_OWN):
            return function(*arguments, **named)
        with suppress(Exception):
            tell(name, arguments, named)
        if not _is_worlds(arguments, named):
            return function(*arguments, **named)
        call = recorder.enter_call(described(name, arguments, named), _site(frame))
        try:
            return function(*arguments, **named)
        finally:
            recorder.leave_call(call)

    return noted


def described(name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return a collective in one line, such as "all_reduce SUM float32[1023]"."""
    if name not in ALIKE:
        return name
    given = [*arguments, *named.values()]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    ops = [
        str(each).rpartition(".")[2] for each in given if isinstance(each, dist.ReduceOp.RedOpType)
    ]
    shown = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors[:1]]
    reduced = (ops or ["SUM"])[:1] if "reduce" in name else []
    return " ".join([name, *reduced, *shown])


def _is_worlds(arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
    groups = [each for each in (*arguments, *named.values()) if isinstance(each, dist.ProcessGroup)]
    return all(group is dist.group.WORLD for group in groups)


def _site(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_lineno}"
