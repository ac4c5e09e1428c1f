"""The hosts of a job meet before their agents start, over real sockets."""

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from real_ranks import free_port

from ddpcheck.errors import LaunchError
from ddpcheck.launch import first_node, nodes
from ddpcheck.launch.first_node import Place
from ddpcheck.launch.nodes import meet_nodes, place_of
from ddpcheck.settings import LaunchOptions

DEADLINE_S = 1.0
# Said within this time, whatever is in the way.
BOUND_S = 10.0


def options(node_rank: int, port: int, **others: object) -> LaunchOptions:
    values: dict[str, object] = {"nnodes": 2, "node_rank": node_rank, "master_port": port}
    return LaunchOptions(**{**values, **others})  # type: ignore[arg-type]


def meet(each: LaunchOptions, deadline_s: float = DEADLINE_S) -> str:
    """Return why the node could not meet the others, or ''."""
    told = ""
    try:
        meet_nodes(each, deadline_s, lambda _line: None)
    except LaunchError as error:
        told = str(error)
    assert "\n" not in told
    return told


def together(*each: LaunchOptions, deadline_s: float = 30.0) -> list[str]:
    with ThreadPoolExecutor() as pool:
        return list(pool.map(meet, each, [deadline_s] * len(each)))


@pytest.fixture(autouse=True)
def every_thread_is_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(1000))
    monkeypatch.setattr(os, "getpid", lambda: next(numbers))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_nodes_that_all_come_go_on(order: tuple[int, ...]) -> None:
    port = free_port()
    assert together(*(options(rank, port, nnodes=3) for rank in order)) == ["", "", ""]


def test_the_place_is_free_again_for_the_agent() -> None:
    port = free_port()
    assert together(options(0, port), options(1, port)) == ["", ""]
    socket.create_server(("", port)).close()


def test_nodes_without_numbers_meet_at_their_endpoint() -> None:
    endpoint = {"rdzv_backend": "c10d", "rdzv_endpoint": f"localhost:{free_port()}"}
    both = [options(0, 29500, **endpoint), options(0, 29500, **endpoint)]
    assert together(*both) == ["", ""]


def test_a_service_that_ddpcheck_does_not_know_is_left_to_the_agent() -> None:
    assert meet(options(1, free_port(), rdzv_backend="etcd-v2")) == ""


def test_the_first_names_those_that_do_not_come() -> None:
    told = meet(options(0, free_port(), nnodes=12))
    assert "11 nodes did not come" in told
    assert "node 1, 2 did not come" in meet(options(0, free_port(), nnodes=3))


def test_the_others_say_that_nothing_listens() -> None:
    port = free_port()
    told = meet(options(1, port))
    assert told.startswith("node 1 on ")
    assert f"127.0.0.1:{port} refused the connection" in told


def test_a_name_that_does_not_resolve_is_told_before_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nodes, "NEWS_S", 0.2)
    began = time.monotonic()
    told = meet(options(1, free_port(), master_addr="no-such-host.invalid"), deadline_s=60.0)
    assert "does not resolve" in told
    assert time.monotonic() - began < BOUND_S


def test_a_port_that_is_taken_is_told_at_once_with_its_owner() -> None:
    with socket.create_server(("", 0)) as other:
        port: int = other.getsockname()[1]
        told = meet(options(0, port), deadline_s=60.0)
    assert f"port {port}" in told
    assert "taken by pid" in told


def test_an_address_that_leads_elsewhere_is_told_by_the_first_node() -> None:
    # RFC 5737: reserved for documentation, no machine has it.
    began = time.monotonic()
    told = meet(options(0, free_port(), master_addr="192.0.2.1"), deadline_s=60.0)
    assert "192.0.2.1" in told
    assert "does not lead to" in told
    assert time.monotonic() - began < BOUND_S


def test_a_listener_that_is_silent_is_no_first_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = meet(options(1, silent.getsockname()[1]))
    assert "does not answer as the first node" in told


@pytest.mark.parametrize(
    ("second", "words"),
    [
        pytest.param({"node_rank": 0, "nnodes": 3}, "port", id="two first nodes"),
        pytest.param({"node_rank": 1, "nnodes": 3}, "--nnodes is 2 on", id="another size"),
    ],
)
def test_nodes_that_contradict_each_other_are_sent_away(second: dict[str, int], words: str) -> None:
    port = free_port()
    both = options(0, port), options(second["node_rank"], port, nnodes=second["nnodes"])
    told = together(*both, deadline_s=DEADLINE_S)
    assert any(words in each for each in told)


def test_two_nodes_with_one_number_are_both_told() -> None:
    port = free_port()
    three = {"nnodes": 3}
    told = together(options(0, port, **three), options(1, port, **three), options(1, port, **three))
    assert all("--node-rank is 1 on" in each for each in told)


def test_a_node_that_gave_up_may_come_again() -> None:
    port = free_port()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(meet, options(0, port, nnodes=3), 30.0)
        gone = first_node.Node(1, 3, "host-b", 7)
        with connected(port) as connection:
            first_node.write(connection, gone)
            assert first_node.read(connection, first_node.Answer) is not None
        others = [pool.submit(meet, options(rank, port, nnodes=3), 30.0) for rank in (1, 2)]
        assert [each.result() for each in (first, *others)] == ["", "", ""]


def connected(port: int) -> socket.socket:
    until = time.monotonic() + BOUND_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5.0)
        except OSError:
            assert time.monotonic() < until


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"master_addr": "node0", "master_port": 5}, Place("node0", 5)),
        ({"rdzv_endpoint": "node0:77"}, Place("node0", 77)),
        ({"rdzv_endpoint": "node0"}, Place("node0", 29500)),
        ({"rdzv_endpoint": "[fe80::1]:77"}, Place("fe80::1", 77)),
    ],
)
def test_the_place_is_where_the_agents_will_meet(given: dict[str, object], place: Place) -> None:
    assert place_of(LaunchOptions(**given)) == place  # type: ignore[arg-type]


def test_news_are_told_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_node, "NEWS_S", 0.1)
    lines: list[str] = []
    say: Callable[[str], object] = lines.append
    with pytest.raises(LaunchError):
        meet_nodes(options(0, free_port()), DEADLINE_S, say)
    assert lines
    assert all("waiting for node 1" in line for line in lines)
