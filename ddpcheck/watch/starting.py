"""The processes that a script starts, which may be its ranks.

What they are started for is run by ``Follower.run``, in them, whichever way they were started. One
that was not forked begins by the same hooks, before it imports the script: what the script imports
by name are then torch's functions as they are watched.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable
from multiprocessing import popen_fork, popen_forkserver, spawn
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import torch.multiprocessing

from ddpcheck.launch.endings import ending
from ddpcheck.watch.replaced import Around, Replaced

# The name of the module is that of its function, too.
OF_TORCH = "torch.multiprocessing.spawn"


class Follower(Protocol):
    """Who is told of the processes: all but ``run`` in the one that starts them."""

    def run(self, call: Callable[[], Any], rank: int, size: int) -> Any:
        """Make the call that a process was started for, in it.

        ``rank`` and ``size`` are those of ``torch.multiprocessing``, or -1.
        """

    def started(self, pid: int) -> None:
        """Hear of a process that was started."""

    def waits(self) -> None:
        """Hear that the script begins to wait for some."""

    def ended(self, pid: int, how: str) -> None:
        """Hear how one ended."""

    def waited(self) -> None:
        """Hear that the script has waited for one; what it raises is raised there."""

    def inherited(self, size: int) -> Callable[[], None]:
        """Return what a process that is not forked begins with, called there."""
        ...


class Starting:
    """Follows a process into those that it starts, until ``close``.

    ``size`` is how many this process itself was started as, by ``torch.multiprocessing``, or -1.
    """

    def __init__(self, follower: Follower, size: int = -1) -> None:
        self._follower = follower
        self._size = size
        self._replaced = Replaced()

    def install(self) -> None:
        """Put the hooks on."""
        put = self._replaced.put
        for owner in (sys.modules[OF_TORCH], torch.multiprocessing):
            put(owner, "start_processes", self._starting_several)
        put(BaseProcess, "start", self._starting)
        put(BaseProcess, "join", self._joining)
        put(sys.modules[OF_TORCH].ProcessContext, "join", self._waiting)
        put(BaseProcess, "_bootstrap", self._beginning)
        put(popen_fork.Popen, "poll", self._polling)
        put(popen_forkserver.Popen, "poll", self._polling)
        put(spawn, "get_preparation_data", self._preparing)

    def close(self) -> None:
        """Take them off: what is started from here on is none of the ranks."""
        self._replaced.close()

    def _starting_several(self, original: Around, *arguments: Any, **named: Any) -> Any:
        given = dict(zip(("fn", "args", "nprocs"), arguments, strict=False)) | named
        before, self._size = self._size, int(given.get("nprocs", 1))
        try:
            return original(*arguments, **named)
        finally:
            self._size = before

    def _starting(self, original: Around, process: BaseProcess) -> None:
        original(process)
        if process.pid is not None:
            self._follower.started(process.pid)

    def _joining(
        self, original: Around, process: BaseProcess, *arguments: Any, **named: Any
    ) -> None:
        self._follower.waits()
        original(process, *arguments, **named)
        self._follower.waited()

    def _waiting(self, original: Around, *arguments: Any, **named: Any) -> Any:
        self._follower.waits()
        return original(*arguments, **named)

    def _polling(self, original: Around, popen: Any, *arguments: Any, **named: Any) -> Any:
        before = popen.returncode
        code = original(popen, *arguments, **named)
        if before is None and popen.returncode is not None:
            self._follower.ended(popen.pid, ending(popen.returncode))
        return code

    def _preparing(self, original: Around, *arguments: Any, **named: Any) -> Any:
        # Read before all else, but for where modules are found.
        beginning = _Beginning(self._follower.inherited(self._size))
        return {"ddpcheck": beginning, **original(*arguments, **named)}

    def _beginning(self, original: Around, process: Any, *arguments: Any, **named: Any) -> Any:
        """Have the call made by ``run`` that this process, which has begun, was started for."""
        target = getattr(process, "_target", None)
        if getattr(target, "__module__", "") == OF_TORCH:
            # Inside of what tells the exception of the function to the process that waits.
            function, rank, *others = process._args
            process._args = (functools.partial(self._call, function, self._size), rank, *others)
        else:
            process.run = functools.partial(self._follower.run, process.run, -1, -1)
        return original(process, *arguments, **named)

    def _call(self, function: Callable[..., Any], size: int, rank: int, *arguments: Any) -> Any:
        return self._follower.run(functools.partial(function, rank, *arguments), rank, size)


class _Beginning:
    """Unpickled as an effect: lets a process find its modules as this one does, and begin."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin

    def __reduce__(self) -> tuple[Any, ...]:
        source = (
            f"import os, pickle, sys; sys.path[:] = {sys.path!r}; "
            f"pickle.loads({pickle.dumps(self._begin)!r})()"
        )
        return exec, (source,)
