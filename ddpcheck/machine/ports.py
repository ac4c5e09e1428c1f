"""Who listens on a TCP port of this machine."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
# What follows "-c" is a program text, and what follows these is a value (python --help).
TEXT, MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*c"), re.compile(r"-[bBdEhiIOPqRsSuvVx?]*m")
OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def owner_of(port: int) -> str:
    """Return who listens on a TCP port of this machine, in words, or ''."""
    pid = owner_pid(port)
    with suppress(psutil.Error, OSError):
        return "" if pid is None else _described(pid)
    return ""


def owner_pid(port: int) -> int | None:
    """Return the process that listens on a TCP port of this machine, 0 for one of another user."""
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and getattr(connection.laddr, "port", 0) == port:
                return connection.pid or 0
    return None


def program_of(command: Sequence[str]) -> str:
    """Return the program of a command line, and of Python its script or module.

    The other arguments are none of ours: passwords and keys may be among them.
    """
    first, *others = command or [""]
    program = (first.split() or [""])[0]  # a process that renamed itself has one long word
    if not PYTHON.fullmatch(Path(program).name):
        return program
    rest = iter(others)
    for word in rest:
        if MODULE.fullmatch(word):
            return f"{program} -m {next(rest, '')}"
        if TEXT.match(word):
            return f"{program} -c"
        if word in OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-"):
            return f"{program} {word}"
    return program


def _described(pid: int) -> str:
    if pid == 0:
        return "a process of another user"
    process = psutil.Process(pid)
    command = program_of(process.cmdline()) or process.name()
    age_s = time.time() - process.create_time()
    return f"pid {pid} of user {process.username()}, {_age(age_s)} old ({command})"


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds > 2 * 3600 else f"{seconds / 60:.0f} min"
