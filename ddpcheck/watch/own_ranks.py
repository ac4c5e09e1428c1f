"""Ranks that a script starts although it is one of several ranks itself.

Each of these would start all of them. Found where a process that the script has started makes a
process group, or where one is started with the variables of a rank, before the script has a group.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ddpcheck.launch.endings import ending
from ddpcheck.launch.own_ranks import STARTS_OWN
from ddpcheck.watch.callsite import users_line
from ddpcheck.watch.rendezvous import around_init
from ddpcheck.watch.replaced import Around, Replaced
from ddpcheck.watch.starting import Starting

OF_RANKS = ("RANK", "LOCAL_RANK")


class OwnRanks:
    """Calls ``found(message, can_follow)``, which does not return, in a script that starts ranks."""

    def __init__(self, found: Callable[[str, bool], None]) -> None:
        self._found = found
        self._has_made_group = False
        self._replaced = Replaced()
        self._starting = Starting(self)

    def install(self) -> None:
        """Look on until the script makes its group: what it starts later are no ranks."""
        self._starting.install()
        around_init(self._replaced, self._making_group)
        self._replaced.put(subprocess.Popen, "__init__", self._opening)

    def close(self) -> None:
        """Look on no longer."""
        self._starting.close()
        self._replaced.close()

    def _making_group(self, original: Around, *arguments: Any, **named: Any) -> Any:
        self.close()
        return original(*arguments, **named)

    def run(self, call: Callable[[], Any], rank: int, size: int) -> Any:
        """Make the call that a process was started for; a rank ends where it makes its group."""
        del rank, size
        self.close()
        around_init(Replaced(), _end_here)
        return call()

    def started(self, pid: int) -> None:
        """Hear of a process that was started: it may be no rank."""

    def waits(self) -> None:
        """Hear that the script begins to wait for some."""

    def ended(self, pid: int, how: str) -> None:
        """Hear how one ended."""
        del pid
        self._has_made_group |= how == ending(STARTS_OWN)

    def waited(self) -> None:
        """Hear that the script has waited for one: tell if that was a rank."""
        if self._has_made_group:
            self._found(f"{_here()} starts ranks of its own", True)

    def inherited(self, size: int) -> Callable[[], None]:
        """Return what a process that is not forked begins with."""
        del size
        return begin

    def _opening(self, original: Around, *arguments: Any, **named: Any) -> None:
        environ = named.get("env")
        words = arguments[1] if len(arguments) > 1 else named.get("args")
        if isinstance(environ, Mapping) and _is_another_rank(environ) and _runs_python(words):
            self._found(f"{_here()} starts ranks of its own, as commands", False)
        original(*arguments, **named)


def begin() -> None:
    """Begin in a process that was started by the script, and not forked."""
    OwnRanks(_ignore).install()


def _end_here(_original: Around, *_arguments: Any, **_named: Any) -> None:
    raise SystemExit(STARTS_OWN)


def _ignore(*_told: Any) -> None:
    pass


def _is_another_rank(environ: Mapping[str, str]) -> bool:
    told = [environ.get(name, os.environ.get(name)) for name in OF_RANKS]
    return "WORLD_SIZE" in environ and told != [os.environ.get(name) for name in OF_RANKS]


def _runs_python(words: Any) -> bool:
    return isinstance(words, list | tuple) and sys.executable in words[:1]


def _here() -> str:
    line = users_line()
    return f"{line.file}:{line.line}" if line else "the script"
