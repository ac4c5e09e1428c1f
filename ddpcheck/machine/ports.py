"""Who holds a TCP port of this machine: listening, connected, or only bound to it."""

from __future__ import annotations

import errno
import os
import pwd
import re
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from ddpcheck.machine.files import text_of
from ddpcheck.machine.sockets import LISTENS, ONLY_BOUND, Held, bound_only, held_in

PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
# What follows "-c" is a program text, and what follows these is a value (python --help).
TEXT, MODULE = re.compile(r"-[bBdEhiIOPqRsSuvVx?]*c"), re.compile(r"-[bBdEhiIOPqRsSuvVx?]*m")
OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
# What the owner does with a port where it does not listen: the reader would look for a listener.
BOUND = ", bound to it without listening"
JOINED = ", connected through it"
# What the process is called, in 15 characters at most, that hosts the store of a run.
STORE_NAME = "ddpcheck store"


def owner_of(port: int) -> str:
    """Return who holds a TCP port of this machine, in words, or ''."""
    held = _held(port)
    if held is None:
        return ""
    does = {LISTENS: "", ONLY_BOUND: BOUND}.get(held.state, JOINED)
    pid = _pid_with(held.inode)
    with suppress(psutil.Error, OSError):
        if pid:
            return f"{_described(pid)}{does}"
    return f"a process of user {_name_of(held.user)}{does}"


def owner_pid(port: int) -> int | None:
    """Return the process that listens on a TCP port of this machine, 0 for one that is hidden."""
    held = _held(port)
    return _pid_with(held.inode) if held is not None and held.state == LISTENS else None


def why_not_opened(port: int) -> str:
    """Return why this process cannot open a listener at a TCP port, or '' when it could."""
    with socket.socket() as tried:
        # As torch's store does: a connection that has ended does not hold the port.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", port))
        except OSError as error:
            return os.strerror(error.errno or errno.EINVAL)
    return ""


def _held(port: int) -> Held | None:
    """Return the socket that keeps others from the port: a listener if there is one."""
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    found = [each for table in tables for each in held_in(text_of(table)) if each.port == port]
    found.sort(key=lambda each: each.state != LISTENS)
    return next(iter(found or bound_only(port)), None)


def _pid_with(inode: int) -> int:
    """Return the first process that has the socket open, 0 when none shows it to this user."""
    wanted = f"socket:[{inode}]"
    for pid in sorted(psutil.pids()):
        if any(name == wanted for name in _open_files(pid)):
            return pid
    return 0


def _open_files(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield str(opened.readlink())


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


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
    process = psutil.Process(pid)
    name = process.name()
    command = name if name == STORE_NAME else program_of(process.cmdline()) or name
    age_s = time.time() - process.create_time()
    return f"pid {pid} of user {process.username()}, {_age(age_s)} old ({command})"


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds > 2 * 3600 else f"{seconds / 60:.0f} min"
