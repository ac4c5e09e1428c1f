import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from probes_on_hosts import FolderStore

from ddpcheck.network import gathering, names
from ddpcheck.network.names import OwnName, is_address, names_of_others, own_name, resolved_all

BOOK = {
    "own": ["10.255.255.1", "127.0.0.1"],
    "debian": ["127.0.1.1"],
    "elsewhere": ["10.255.255.1"],
    "six": ["fe80::1%eth9", "::1"],
}


@pytest.fixture
def never() -> threading.Event:
    return threading.Event()


@pytest.fixture(autouse=True)
def _book(monkeypatch: pytest.MonkeyPatch, never: threading.Event) -> Iterator[None]:
    def look_up(name: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        if name == "slow":
            never.wait(30)
        if name not in BOOK:
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 1, 6, "", (address, 0)) for address in BOOK[name] * 2]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(names, "OWN_NAME_S", 0.05)
    own_name.cache_clear()
    yield
    never.set()
    own_name.cache_clear()


@pytest.mark.parametrize(
    ("host", "found", "usable"),
    [
        ("own", ("10.255.255.1", "127.0.0.1"), "127.0.0.1"),
        ("debian", ("127.0.1.1",), "127.0.1.1"),
        ("elsewhere", ("10.255.255.1",), "127.0.0.1"),
        ("unknown", (), "127.0.0.1"),
        ("slow", (), ""),
    ],
)
def test_own_name_is_the_first_address_that_can_be_bound(
    host: str, found: tuple[str, ...], usable: str
) -> None:
    told = own_name(host)
    assert told == OwnName(found, usable)
    assert told.is_loopback == usable.startswith("127.")


def test_a_name_server_that_is_gone_costs_the_budget_once() -> None:
    told = resolved_all(["slow", "debian", "unknown", "six"], 0.05)
    assert told == {"debian": ("127.0.1.1",), "unknown": (), "six": ("fe80::1", "::1")}


def test_the_first_rank_of_each_host_hears_the_other_names(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)

    def come(rank: int) -> list[str] | None:
        host = "ab"[rank // 2]
        return names_of_others(store, "id", 4, host, f"network of {host}")

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(come, range(4)))
    for ranks, others in ((told[:2], ["b"]), (told[2:], ["a"])):
        assert sorted(ranks, key=bool) == [None, others]


def test_among_many_hosts_each_looks_up_a_few(tmp_path: Path) -> None:
    store, count = FolderStore(tmp_path), 64
    hosts = [f"node{number:02}" for number in range(count)]
    for number, host in enumerate(hosts):
        store.set(f"id/host/{number}", host)
    store.add("id/hosts", count - 1)
    store.add("id/come", count - 1)
    told = names_of_others(store, "id", count, hosts[-1], "its network")
    assert told is not None
    assert len(told) == len(set(told)) == 11
    assert {"node00", "node62"} < set(told)
    assert hosts[-1] not in told


def test_nobody_waits_for_ever_for_a_rank_that_does_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "PATIENCE_S", 0.02)
    assert names_of_others(FolderStore(tmp_path), "id", 2, "a", "1") == []


def test_addresses_are_told_from_names() -> None:
    told = [each for each in ("10.0.0.1", "::1", "fe80::1%eth0", "host", "") if is_address(each)]
    assert told == ["10.0.0.1", "::1", "fe80::1%eth0"]
