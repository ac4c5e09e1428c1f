"""Ranks whose agents count restarts differently meet in one run, and in none that is left over."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from ddpcheck.engine.channel import Channel
from ddpcheck.launch import meeting
from ddpcheck.launch.host import ARRIVALS, ENDED, PULSE
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.meeting import in_own_run, key_prefix
from ddpcheck.launch.stores import PrefixStore, TCPStore

FIRST = Identity(0, 0, 2, "node0", "127.0.0.1", 29500, "torchrun", True, "1")
SECOND = replace(FIRST, rank=1, host="node1", attempt="0")


@pytest.fixture
def store() -> TCPStore:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def run_of(store: TCPStore, who: Identity) -> PrefixStore:
    return PrefixStore(key_prefix(who), store)


@contextmanager
def beating(store: TCPStore, who: Identity) -> Generator[None]:
    """Be a rank that has arrived and beats, until the end of the block."""
    own = TCPStore("127.0.0.1", store.port, is_master=False, wait_for_workers=False)
    run, over = run_of(own, who), threading.Event()
    run.add(ARRIVALS, 1)

    def beat() -> None:
        while not over.wait(0.01):
            Channel(run).beat(0, "")

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_who_counts_other_restarts_takes_part_in_the_run_that_was_begun(store: TCPStore) -> None:
    assert in_own_run(store, FIRST).attempt == "1"
    with beating(store, FIRST):
        assert in_own_run(store, SECOND) == replace(SECOND, attempt="1")


def test_a_run_that_is_over_is_left_alone(store: TCPStore) -> None:
    before = in_own_run(store, replace(FIRST, attempt="0"))
    with beating(store, before):
        run_of(store, before).set(ENDED, "{}")
        assert in_own_run(store, FIRST).attempt == "1"


def test_a_run_that_all_have_come_to_is_left_alone(store: TCPStore) -> None:
    before = in_own_run(store, replace(FIRST, attempt="0"))
    run_of(store, before).add(ARRIVALS, 1)
    with beating(store, before):
        assert in_own_run(store, FIRST).attempt == "1"


def test_a_run_whose_ranks_are_dead_is_left_alone(
    store: TCPStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "BEGINNING_S", 0.1)
    before = run_of(store, in_own_run(store, replace(FIRST, attempt="0")))
    before.add(ARRIVALS, 1)
    before.add(PULSE, 7)
    assert in_own_run(store, FIRST).attempt == "1"


def test_a_second_run_of_the_same_start_is_met_as_well(store: TCPStore) -> None:
    first = in_own_run(store, SECOND)
    run_of(store, first).add(ARRIVALS, 2)
    run_of(store, first).set(ENDED, "{}")
    again = in_own_run(store, SECOND)
    assert again.attempt == "0.1"
    with beating(store, again):
        assert in_own_run(store, FIRST).attempt == "0.1"
