from pathlib import Path

import msgspec
import pytest
from probes_on_hosts import FolderStore

from ddpcheck.network import gathering
from ddpcheck.network.echo import Listener, visit
from ddpcheck.network.gathering import arrival
from ddpcheck.network.roster import (
    Here,
    Seat,
    address_towards,
    call_together,
    ephemeral_ports,
    peers_of,
    place_of,
    visit_all,
)

AMPLE_S = 10.0
HERE = "127.0.0.1"


def seats(count: int) -> list[Seat]:
    return [Seat(f"node{n:04}", f"{n}", Listener(HERE, 1, "")) for n in range(count)]


@pytest.mark.parametrize("count", [2, 3, 16])
def test_few_hosts_visit_everybody(count: int) -> None:
    hosts = seats(count)
    for own in hosts:
        assert {*peers_of(own, hosts)} == {*hosts} - {own}


@pytest.mark.parametrize("count", [17, 18, 31, 64, 125, 1000])
def test_among_many_hosts_each_is_visited_by_some(count: int) -> None:
    hosts = seats(count)
    visits = [(own, peer) for own in hosts for peer in peers_of(own, hosts)]
    assert len(visits) == len({*visits})
    assert all(own != peer for own, peer in visits)
    assert {(peer, own) for own, peer in visits} == {*visits}
    times = [sum(peer is host for _, peer in visits) for host in hosts[:3]]
    assert 2 < min(times) <= max(times) <= 20


def test_hosts_visit_different_ones_at_a_time() -> None:
    hosts = seats(16)
    for turn in range(15):
        assert len({peers_of(own, hosts)[turn] for own in hosts}) == 16


def test_ranks_of_two_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path)
    monkeypatch.setattr(gathering, "PATIENCE_S", 0.0)
    first = call_together(store, "test", 3, Here("node0", "p0", HERE))
    assert (first.hosts_count, first.peers) == (1, ())
    second = call_together(store, "test", 3, Here("node0", "p0", HERE))
    assert (second.hosts_count, second.own, second.peers) == (1, None, ())
    third = call_together(store, "test", 3, Here("node1", "p1", HERE))
    assert (third.hosts_count, third.peers) == (2, (first.own,))
    ((seat, _, reached),) = visit_all(lambda listener: visit(listener, AMPLE_S), third.peers)
    assert seat == first.own
    assert reached.is_open
    assert all(file.name.startswith("test") for file in tmp_path.iterdir())


def test_a_host_listens_at_all_its_addresses_that_are_still_there(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    others = ("127.0.0.2", "192.0.2.1")
    first = call_together(store, "test", 1, Here("node0", "p0", HERE, others, "127.0.0.3"))
    assert first.own is not None
    assert first.own.spare is not None
    assert first.own.spare.address == "127.0.0.3"
    told = visit_all(lambda listener: visit(listener, AMPLE_S), [first.own])
    assert [(door.address, reach.is_open) for _, door, reach in told] == [
        (HERE, True),
        ("127.0.0.2", True),
    ]


def test_a_rank_that_cannot_listen_keeps_nobody(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with pytest.raises(OSError, match="assign"):
        call_together(store, "test", 2, Here("node0", "p0", "192.0.2.1"))
    told = call_together(store, "test", 2, Here("node1", "p1", HERE))
    assert (told.hosts_count, told.peers) == (2, ())


def test_nobody_to_visit() -> None:
    assert visit_all(lambda _: None, []) == []


def test_a_host_that_nobody_could_reach_is_counted(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    first = call_together(store, "test", 1, Here("node0", "p0", ""))
    assert (first.hosts_count, first.own) == (1, None)
    second = call_together(store, "test", 2, Here("node1", "p1", HERE))
    assert (second.hosts_count, second.peers) == (2, ())


def test_a_place_is_one_host_name_and_network(tmp_path: Path) -> None:
    here = place_of("node0")
    assert here == place_of("node0")
    assert len({here, place_of("node1"), place_of("node0", tmp_path)}) == 3


def test_the_address_towards_a_host() -> None:
    assert address_towards("localhost") == HERE
    assert address_towards("::1") == "::1"
    assert address_towards("no-such-host.invalid") == ""
    assert address_towards("a..b") == ""
    assert address_towards("") == ""


def test_ephemeral_ports(tmp_path: Path) -> None:
    assert ephemeral_ports(tmp_path) == "1024-65535"
    file = tmp_path / "proc/sys/net/ipv4/ip_local_port_range"
    file.parent.mkdir(parents=True)
    file.write_text("32768\t60999\n")
    assert ephemeral_ports(tmp_path) == "32768-60999"


class CountingStore(FolderStore):
    """A store that counts how often it is asked, and how many texts it hands out."""

    calls_count = texts_count = 0

    def add(self, key: str, amount: int, /) -> int:
        self.calls_count += 1
        return super().add(key, amount)

    def check(self, keys: list[str], /) -> bool:
        self.calls_count += 1
        return super().check(keys)

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        self.calls_count += 1
        self.texts_count += len(keys)
        return super().multi_get(keys)


def test_a_rank_asks_the_store_as_often_among_many_hosts_as_among_few(tmp_path: Path) -> None:
    store, hosts_count, world = CountingStore(tmp_path), 64, 512
    for seat in seats(hosts_count - 1):
        with arrival(store, "test", seat.place) as key:
            assert key
            store.set(key, msgspec.json.encode(seat).decode())
    store.add("test/come", world - hosts_count)
    store.calls_count = 0
    first = call_together(store, "test", world, Here("zz", "last", HERE))
    assert (first.hosts_count, len(first.peers)) == (hosts_count, 11)
    assert store.calls_count <= 8
    assert store.texts_count == hosts_count
    store.calls_count = store.texts_count = 0
    second = call_together(store, "test", world, Here("zz", "last", HERE))
    assert (second.hosts_count, second.peers) == (hosts_count, ())
    assert store.calls_count <= 4
    assert store.texts_count == 0
