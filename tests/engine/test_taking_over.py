"""A leader that follows another one, on a store in memory: no ranks, no ports."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from torch._C._distributed_c10d import HashStore

from ddpcheck import jsontext
from ddpcheck.engine.announcements import ASSIGNMENT, Assignment
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Present
from ddpcheck.engine.leader import RUN, Leader
from ddpcheck.engine.rank import task_of
from ddpcheck.engine.roll import described
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.stores import Store
from ddpcheck.settings import RunSettings

# Who waits for its seat looks for it by itself once its patience ends: later than it is held here.
HELD_S, SEATS_S = 10.0, 20.0
WHO = Identity(
    rank=0,
    local_rank=0,
    world_size=1,
    host="node-1",
    master_addr="127.0.0.1",
    master_port=1,
    launcher="env",
    store_is_hosted=True,
    attempt="0",
)
CAME = Present(
    rank=0,
    local_rank=0,
    world_size=1,
    host="node-1",
    pid=1,
    gpus=0,
    backend="gloo",
    launcher="env",
    versions={},
)


class HeldAtItsEnd:
    """A store that lets nobody say that the run has ended before ``seated`` is set."""

    def __init__(self, store: HashStore, seated: threading.Event) -> None:
        self._store = store
        self._seated = seated
        self.was_seated_first = False

    def set(self, key: str, value: str) -> None:
        if key == "ended":
            self.was_seated_first = self._seated.wait(HELD_S)
        self._store.set(key, value)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return cast("Callable[..., Any]", getattr(self._store, name))


def left_behind(store: HashStore, folder: Path, settings: RunSettings) -> None:
    """Leave what a leader leaves that dies once it has given seats and before it wakes anybody."""
    channel = Channel(store)
    channel.arrive(CAME, CAME.pid, CAME.host)
    channel.announce(RUN, described("run-1", settings, WHO, [CAME]))
    assignment = Assignment(
        run_id="run-1",
        run_dir=str(folder),
        backend="gloo",
        seats=[0],
        deadline_s=0.1,
        complete=True,
    )
    store.set(ASSIGNMENT, jsontext.encode(assignment).decode())


def test_those_that_wait_for_their_seats_are_woken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, seated = HashStore(), threading.Event()
    settings = RunSettings(report_dir=str(tmp_path), select=("launch",), deadline_s=0.1)
    left_behind(store, tmp_path, settings)
    held = HeldAtItsEnd(store, seated)

    def wait_for_seats() -> None:
        if Channel(store).hear_seats(SEATS_S):
            seated.set()

    waiting = threading.Thread(target=wait_for_seats)
    waiting.start()
    task = task_of(WHO, settings, "run-1", lambda _report, _path: None)
    leader = Leader(lambda: Channel(cast("Store", held)), task)
    leader.start()
    leader.join()
    waiting.join()
    assert held.was_seated_first
    assert "Traceback" not in capsys.readouterr().err
