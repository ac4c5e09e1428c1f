"""Who listens on a TCP port of this machine."""

from __future__ import annotations

import time
from contextlib import suppress

import psutil


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


def _described(pid: int) -> str:
    if pid == 0:
        return "a process of another user"
    process = psutil.Process(pid)
    command = " ".join(process.cmdline())[:120] or process.name()
    age_s = time.time() - process.create_time()
    return f"pid {pid} of user {process.username()}, {_age(age_s)} old ({command})"


def _age(seconds: float) -> str:
    return f"{seconds / 3600:.0f} h" if seconds > 2 * 3600 else f"{seconds / 60:.0f} min"
