"""Where the script's own process group meets, when the ranks have met ddpcheck's store before.

ddpcheck's store is at MASTER_PORT, as a launcher's own would be, and torch is told so. A script that
has set another port, or hands over an address, means a store that its rank 0 opens there.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.replaced import Around, Replaced

USES_LAUNCHERS_STORE = "TORCHELASTIC_USE_AGENT_STORE"
INIT = "init_process_group"


class Rendezvous:
    """Lets the script meet where it wants to; ``refuse`` ends the run where it cannot.

    ``claim`` says whether no other process has said yet that it is this rank.
    """

    def __init__(
        self, world_size: int, claim: Callable[[int], bool], refuse: Callable[[str], None]
    ) -> None:
        self._world_size = world_size
        self._claim = claim
        self._refuse = refuse
        self._replaced = Replaced()
        self._port = os.environ.get("MASTER_PORT", "")

    def install(self) -> None:
        """Say that the store of the run is at MASTER_PORT, unless a launcher has said it."""
        by_launcher = os.environ.get(USES_LAUNCHERS_STORE) == "True"
        os.environ[USES_LAUNCHERS_STORE] = "True"
        os.environ.setdefault("TORCHELASTIC_RESTART_COUNT", "0")  # torch 2.4 reads it then
        if not by_launcher or "DDPCHECK_LAUNCHED" in os.environ:
            # The package has a function of that name.
            module = sys.modules["torch.distributed.rendezvous"]
            self._replaced.put(module, "_create_c10d_store", self._opening)
        around_init(self._replaced, self._joining)

    def close(self) -> None:
        """Put torch's own back."""
        self._replaced.close()

    def _opening(self, original: Around, *arguments: Any, **named: Any) -> Any:
        port = arguments[1] if len(arguments) > 1 else named.get("port")
        if str(port) == self._port:
            return original(*arguments, **named)
        with _without(USES_LAUNCHERS_STORE):
            return original(*arguments, **named)

    def _joining(self, original: Around, *arguments: Any, **named: Any) -> Any:
        told = group_told(original, arguments, named, os.environ)
        message = self._in_the_way(*told) if told and not dist.is_initialized() else ""
        if message:
            self._refuse(message)
        return original(*arguments, **named)

    def _in_the_way(self, rank: int, size: int) -> str:
        """Return why that group can never be complete, or ''."""
        if size > self._world_size:
            return (
                f"{_here()} makes a group of {size} ranks, and {self._world_size} were started: "
                f"start as many, with --nproc-per-node {size}"
            )
        if size == self._world_size and not self._claim(rank):
            return (
                f"{_here()} makes a group of {size} ranks in which two processes are rank {rank}: "
                "let the script read RANK, which each process has, or start each with its own "
                f"arguments: RANK={rank} WORLD_SIZE={size} MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
                "ddpcheck watch SCRIPT ARGS"
            )
        return ""


def around_init(replaced: Replaced, around: Around) -> None:
    """Have ``around`` called instead of ``init_process_group``, by both of its names."""
    replaced.put(dist, INIT, around)
    replaced.put(distributed_c10d, INIT, around)


def group_told(
    init: Callable[..., Any], arguments: Any, named: Any, environ: Mapping[str, str]
) -> tuple[int, int] | None:
    """Return the rank and the size that ``init_process_group`` is called with, or would read.

    None where it will raise, or is called in another thread, as tests do which play several ranks.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    try:
        given = inspect.signature(init).bind_partial(*arguments, **named).arguments
        rank, size = (_number(given, environ, name) for name in ("rank", "world_size"))
    except (TypeError, ValueError):
        return None
    return (rank, size) if 0 <= rank < size else None


def _number(given: Mapping[str, Any], environ: Mapping[str, str], name: str) -> int:
    value = int(given.get(name, -1))
    if value >= 0 or given.get("store") is not None:
        return value
    _, _, query = str(given.get("init_method") or "").partition("?")
    told = [
        pair.removeprefix(f"{name}=") for pair in query.split("&") if pair.startswith(f"{name}=")
    ]
    return int(told[0] if told else environ.get(name.upper(), "-1"))


def _here() -> str:
    line = users_line()
    return f"{line.file}:{line.line}" if line else "the script"


@contextmanager
def _without(name: str) -> Generator[None]:
    kept = os.environ.pop(name, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[name] = kept
