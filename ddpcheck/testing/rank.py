"""A rank's own pytest: it collects the tests it is given, and runs them one by one.

So fixtures, parameters, marks, assertion rewriting, capture and other plug-ins work as they do in
the pytest that asks: they are the same code.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Generator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from ddpcheck.engine import stacks
from ddpcheck.engine.group import leave_group
from ddpcheck.measures.stack_lines import users_place
from ddpcheck.testing import world
from ddpcheck.testing.combining import is_expected, is_of_subtest
from ddpcheck.testing.coverage import coverage_of, measured
from ddpcheck.testing.errands import (
    OUTPUT,
    STACK,
    Called,
    Done,
    Errand,
    Phase,
    Setup,
    Stand,
    Unable,
    Warned,
    is_sendable,
    sendable,
)
from ddpcheck.testing.plugin import RANK

# What does not concern a rank: the other pytest selects, stops, debugs and writes.
NOT_FOR_RANKS: dict[str, Any] = {
    "usepdb": False,
    "trace": False,
    "maxfail": 0,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "collectonly": False,
    "setupshow": False,
    "setuponly": False,
    "setupplan": False,
    "xmlpath": None,
    "dist": "no",
    "numprocesses": None,
    "tx": [],
    "looponfail": False,
    "durations": None,
    "no_cov": True,
}
TEMPORARY = "tmp"
# Frames of these call the test.
CALLS_THE_TEST = ("/_pytest/", "/pluggy/", "/ddpcheck/testing/")
# Options of plug-ins that a rank's pytest is not to act on, and what switches them off.
SWITCHED_OFF = {"xdist": ("-n", "0"), "pytest_cov": ("--no-cov",)}


def setup_of(config: pytest.Config) -> Setup:
    """Return how ranks of this pytest are to be set up."""
    ini = ["-c", str(config.inipath)] if config.inipath else []
    plugins = [word for name in config.option.plugins or () for word in ("-p", name)]
    off = [
        word
        for name, words in SWITCHED_OFF.items()
        if config.pluginmanager.hasplugin(name)
        for word in words
    ]
    # What pytest goes by before it takes over any option.
    early = [f"--capture={config.option.capture}", f"--assert={config.option.assertmode}"]
    early += [word for each in config.option.override_ini or () for word in ("-o", each)]
    early += [word for each in config.option.pythonwarnings or () for word in ("-W", each)]
    # A rank is forked with ddpcheck imported, which must not be an error where warnings are.
    early += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    early += [f"--import-mode={config.option.importmode}"]
    return Setup(
        arguments=(*ini, f"--rootdir={config.rootpath}", *plugins, *early, *off),
        # What cannot be sent is a default, which the rank's pytest finds for itself.
        options={k: v for k, v in vars(config.option).items() if is_sendable(v)} | NOT_FOR_RANKS,
        coverage=coverage_of(config),
    )


def be_rank(connection: Connection, life: Connection, setup: Setup, folder: str) -> None:
    """Be a rank until nobody asks for more; runs in a process and process group of its own."""
    place = Path(folder)
    if "--capture=no" not in setup.arguments:
        _write_to(place / OUTPUT)
    stack_file = (place / STACK).open("w", buffering=1)
    stacks.answer_in(stack_file)
    threading.Thread(target=_answer, args=(life,), daemon=True).start()
    arguments = [*setup.arguments, f"--basetemp={place / TEMPORARY}"]
    plugin = RankPlugin(connection, setup)
    with measured(setup.coverage):
        code = pytest.main(arguments, plugins=[plugin])
    if not plugin.began:
        with suppress(OSError):
            connection.send(Unable(f"its pytest ended with exit code {int(code)} at its start"))
    faulthandler.unregister(stacks.ASK)
    sys.stdout.flush()
    _end_children()
    os._exit(int(code))


class RankPlugin:
    """What makes a pytest run what it is given, and tell how that went."""

    def __init__(self, connection: Connection, setup: Setup) -> None:
        self._connection = connection
        self._setup = setup
        self._items: dict[str, dict[str, pytest.Item]] = {}
        self._errand: Errand | None = None
        self._world: world.World | None = None
        self._is_told = False
        self._config: Any = None
        self.began = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Take the options over that the other pytest was given."""
        own = {"basetemp": config.option.basetemp}
        vars(config.option).update(self._setup.options | own)
        config.stash[RANK] = self
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Write nothing to the terminal: the other pytest does."""
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            session.config.pluginmanager.unregister(reporter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> bool:
        """Collect nothing yet."""
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None, Any, Any]:
        """Leave no test out: the other pytest has selected, of all files, which a rank has not."""
        found = list(items)
        result = yield
        kept = set(map(id, items))
        items += [item for item in found if id(item) not in kept]
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run test after test, as they are asked for."""
        self.began = True
        with suppress(EOFError, OSError):
            while (errand := self._connection.recv()) is not None:
                self._connection.send(self._run(session, errand))
        return True

    def _run(self, session: pytest.Session, errand: Errand) -> Done | Unable:
        item = self._item(session, errand.file, errand.nodeid)
        if item is None:
            return Unable(
                f"it finds no test {errand.nodeid} in {errand.file}: parameters must be the same, "
                "and in the same order, in every process"
            )
        following = self._item(session, errand.next_file, errand.next_nodeid)
        world.set_threads(errand.world_size, _sessions())
        before = world.marks()
        self._errand, self._is_told = errand, False
        with world.variables_set(errand):
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except (KeyboardInterrupt, pytest.exit.Exception) as error:
                return Unable(f"it raised {_raised(error)}, which ends its pytest")
            leave_group()
        self._errand = self._world = None
        return Done(world.worn(before, world.marks()))

    def _item(self, session: pytest.Session, file: str, nodeid: str) -> pytest.Item | None:
        if not file:
            return None
        if file not in self._items:
            try:
                self._items[file] = {item.nodeid: item for item in session.perform_collect([file])}
            except pytest.UsageError:
                return None
        return self._items[file].get(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Join the test's group before any fixture is made."""
        self._world = world.join(self.errand)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Pass the report on; and once the body is over, wait until it is for all."""
        plain = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(Phase(sendable(plain)))
        over = report.when == "call" or (report.when == "setup" and not report.passed)
        if over and not self._is_told and not is_of_subtest(report):
            self._is_told = True
            # Whether its author expected that or not, it leaves its peers in the lurch.
            self._connection.send(Called("failed" if is_expected(report) else report.outcome))
            self._connection.recv()

    @pytest.hookimpl
    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage) -> None:
        """Pass on what a test warned of, which the other pytest shows."""
        if self._errand is not None:
            kind, text = warning_message.category, str(warning_message.message)
            place = warning_message.filename, warning_message.lineno
            self._connection.send(Warned(kind.__module__, kind.__qualname__, text, *place))

    def world(self) -> world.World:
        """Return where the test that runs is."""
        return self._world or world.join(self.errand)

    def shared_folder(self) -> Path:
        """Return the folder that all ranks of the test have."""
        return Path(self.errand.shared_folder)

    @property
    def errand(self) -> Errand:
        """Return the test that runs; raises RuntimeError where none does."""
        if self._errand is None:
            raise RuntimeError("no test runs on this rank")
        return self._errand


def _write_to(file: Path) -> None:
    """Have stdout and stderr go there: what no capture of pytest's own gets, such as last words."""
    with file.open("wb", buffering=0) as opened:
        for number in (1, 2):
            os.dup2(opened.fileno(), number)


def _raised(error: BaseException) -> str:
    """Return what was raised, and the line of the test that did."""
    shown = "".join(traceback.format_tb(error.__traceback__))
    place = users_place(shown)
    told = f"{type(error).__name__}{f'({error})' if str(error) else ''}"
    return f"{told} at {Path(place.file).name}:{place.line}" if place else told


def _sessions() -> int:
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


def _answer(life: Connection) -> None:
    """Tell where the main thread is whenever asked; end once the pytest that asks is gone.

    It has the GIL as it looks. From outside, the stack of a thread that runs cannot be read safely.
    """
    stacks.answer_here()
    main = threading.main_thread().ident or 0
    with suppress(EOFError, OSError):
        while life.recv():
            frame = sys._current_frames().get(main)
            groups = len(torch.distributed.distributed_c10d._world.pg_map)
            stack = _inside_the_test(stacks.stack_of(frame))
            life.send(Stand(stacks.waiting_call(frame), stack, groups, time.process_time()))
    os.killpg(0, signal.SIGKILL)  # with what its tests have started


def _end_children() -> None:
    """End what tests have started and left, as multiprocessing would, had it an end of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)


def _inside_the_test(stack: str) -> str:
    """Return what follows on the frames that call the test, which are the same in every stack."""
    last = max(stack.rfind(each) for each in CALLS_THE_TEST)
    following = stack.find('\n  File "', last) if last >= 0 else 0
    return stack[following:].strip("\n") if following >= 0 else stack
