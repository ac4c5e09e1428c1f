"""Ranks that live on from test to test: processes forked from one that has imported torch.

The store in which they meet is hosted by a process of its own, so that no rank has a port, whatever
other sessions run beside this one.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Container
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import cast

import pytest

from ddpcheck.engine.stacks import ASK, answers
from ddpcheck.launch.endings import ending
from ddpcheck.testing.errands import OUTPUT, STACK, Setup, Stand

PRELOAD = "ddpcheck.testing.preload"
LOOPBACK = "127.0.0.1"
NO_STORE = (
    "the process that hosts the ranks' stores has ended: a script that calls pytest.main() must do so "
    "under if __name__ == '__main__', as ranks import it; else see stderr"
)
# Of what faulthandler writes at a crash: what calls the test, and lists of modules.
NOISE = re.compile(
    r'^Extension modules:|File "[^"]*(/_pytest/|/pluggy/|/multiprocessing/|/ddpcheck/testing/)'
    r'|File "[^"]*/threading.py"|File "<string>", line 1 in <module>'
)
# What a rank that was asked to end has for its last words: coverage, say.
LEAVE_S = 5.0


class Rank:
    """One rank's process; ``connection`` carries what it is asked, and what it says."""

    def __init__(self, context: ForkServerContext, setup: Setup, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.connection, theirs = context.Pipe()
        self._life, their_life = context.Pipe()
        self.process: ForkServerProcess = context.Process(
            target=_be_rank, args=(theirs, their_life, setup, str(folder))
        )
        self._is_asked = False
        self.process.start()
        theirs.close()
        their_life.close()

    def ask_where(self) -> None:
        """Ask it where its main thread is, unless it still owes an answer."""
        if not self._is_asked:
            with suppress(OSError):
                self._life.send("where")
                self._is_asked = True

    def where(self) -> Stand | None:
        """Return what it has answered since it was asked; None: nothing yet."""
        with suppress(EOFError, OSError):
            if self._life.poll():
                self._is_asked = False
                return cast(Stand, self._life.recv())
        return None

    def ask_in_c(self) -> None:
        """Have it write its stacks though none of its threads may run Python.

        Reading the stack of a thread that does run could crash it: for one that does not answer.
        """
        pid = self.process.pid or 0
        # Before it listens, the signal would end it.
        if answers(pid):
            with suppress(OSError):
                os.kill(pid, ASK)

    def written_stacks(self) -> str:
        """Return the stacks that it has written."""
        with suppress(OSError):
            return (self._folder / STACK).read_text(errors="replace").strip()
        return ""

    def last_words(self) -> str:
        """Return what it wrote outside of any test's capture, such as how it crashed."""
        with suppress(OSError):
            written = (self._folder / OUTPUT).read_text(errors="replace")
            return "\n".join(
                line for line in written.splitlines() if not NOISE.search(line)
            ).strip()
        return ""

    def ended_by(self) -> str:
        """Return what ended it: a signal, or an exit code; '' while it lives."""
        code = self.process.exitcode
        return "" if code is None else ending(code)

    def let_go(self) -> None:
        """Ask it to end, if it listens."""
        with suppress(OSError):
            self.connection.send(None)

    def end(self, within_s: float = 0.0) -> None:
        """See that it has ended: by itself in this time, or by force."""
        self.process.join(within_s)
        if self.process.is_alive():
            self._kill()
            self.process.join()
        self.connection.close()
        self._life.close()

    def _kill(self) -> None:
        """Kill it, and what its tests have started; before its first line it has no group."""
        pid = self.process.pid or 0
        with suppress(OSError):
            (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)


class Pool:
    """The ranks of a session, as many as a test has asked for; worn ones are replaced."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._folder = Path(tempfile.mkdtemp(prefix="ddpcheck-ranks-"))
        self._ranks: list[Rank] = []
        self._started = self._folders = 0
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOAD])
        self._stores, theirs = self._context.Pipe()
        self._host = self._context.Process(target=_host_stores, args=(theirs,), daemon=True)
        self._host.start()
        theirs.close()

    def ranks(self, count: int) -> list[Rank]:
        """Return the first ``count`` ranks, alive."""
        while len(self._ranks) < count:
            folder = self._folder / f"rank-{len(self._ranks)}-{self._started}"
            self._started += 1
            self._ranks.append(Rank(self._context, self._setup, folder))
        return self._ranks[:count]

    @property
    def size(self) -> int:
        """Return how many ranks there are."""
        return len(self._ranks)

    def new_store(self) -> int:
        """Return the port of an empty store; the one before is closed."""
        try:
            self._stores.send("a new store")
            return int(self._stores.recv())
        except (EOFError, OSError) as error:
            raise pytest.UsageError(NO_STORE) from error

    def new_folder(self) -> Path:
        """Return an empty folder."""
        self._folders += 1
        shared = self._folder / f"shared-{self._folders}"
        shared.mkdir()
        return shared

    def discard(self, idle: Container[int]) -> None:
        """End all ranks, those that are idle by their own doing; the next test gets fresh ones."""
        for number, rank in enumerate(self._ranks):
            if number in idle:
                rank.let_go()
        for number, rank in enumerate(self._ranks):
            rank.end(LEAVE_S if number in idle else 0.0)
        self._ranks = []

    def close(self) -> None:
        """End all processes, and remove what they have written."""
        self.discard(range(len(self._ranks)))
        self._stores.close()
        self._host.kill()
        self._host.join()
        shutil.rmtree(self._folder, ignore_errors=True)


def _be_rank(connection: Connection, life: Connection, setup: Setup, folder: str) -> None:
    from ddpcheck.testing.rank import be_rank

    # The terminal's Ctrl-C is for the pytest that asks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever ends this rank ends what its tests have started with it.
    os.setpgid(0, 0)
    # What a test starts, loader workers say, starts as it would without ddpcheck.
    multiprocessing.set_start_method(None, force=True)
    be_rank(connection, life, setup, folder)


def _host_stores(parent: Connection) -> None:
    """Host one store after the other, each for a test, until nobody asks any more."""
    from ddpcheck.launch.host import ask_no_name_server
    from ddpcheck.launch.stores import TCPStore

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ask_no_name_server()
    with suppress(EOFError, OSError):
        while parent.recv():
            store = TCPStore(LOOPBACK, 0, is_master=True, wait_for_workers=False)
            parent.send(store.port)
