"""Whole runs of two hosts whose network has one fault each: one cause, one error, no hang."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
from firewalls import block, lose_large_packets, sidecar
from hosts import Host, made_hosts, run_ranks

from ddpcheck.finding import Severity
from ddpcheck.report import CheckOutcome, Verdict

# What comes after the network, which would hang or fail as an echo of it.
ECHOES = ("devices", "collectives", "rehearsal")
# Before any deadline, of 60 s, has passed.
BOUND_S = 60.0


NONE: Mapping[str, str] = MappingProxyType({})


class Fault(NamedTuple):
    """What is done to the hosts, and the one error that is to come of it."""

    make: Callable[[list[Host]], AbstractContextManager[None]]
    check: str
    ranks: tuple[int, ...]
    fix: str
    environ: Mapping[str, str] = NONE


@contextmanager
def dropped(hosts: list[Host]) -> Generator[None]:
    block(hosts[0], "DROP")
    yield


@contextmanager
def rejected(hosts: list[Host]) -> Generator[None]:
    block(hosts[0], "REJECT")
    yield


def held(hosts: list[Host]) -> AbstractContextManager[None]:
    return sidecar(hosts[0])


@contextmanager
def bridges(hosts: list[Host]) -> Generator[None]:
    for host in hosts:
        host.add_interface("docker0", "172.17.0.1/16")
    yield


@contextmanager
def idle_cards(hosts: list[Host]) -> Generator[None]:
    for number, host in enumerate(hosts, start=1):
        host.add_interface("eth1", f"10.99.0.{number}/24", "loose")
    yield


@contextmanager
def two_families(hosts: list[Host]) -> Generator[None]:
    hosts[1].add_address("fd77::2/64")
    hosts[1].set_etc_hosts("fd77::2 host1\n")
    yield


@contextmanager
def large_ones_lost(hosts: list[Host]) -> Generator[None]:
    lose_large_packets(hosts[1])
    yield


@contextmanager
def settings_alone(hosts: list[Host]) -> Generator[None]:
    assert hosts
    yield


LO = {"GLOO_SOCKET_IFNAME": "lo"}
DOCKER0 = {"GLOO_SOCKET_IFNAME": "docker0"}
ETH1 = {"GLOO_SOCKET_IFNAME": "eth1"}
EXPORT = "export GLOO_SOCKET_IFNAME=eth0 on host0, host1"
UNREACHABLE, WRONG = "network/unreachable-peer", "network/wrong-interface"
FAULTS = {
    "ephemeral ports dropped": Fault(dropped, UNREACHABLE, (0,), "security group of host0"),
    "ephemeral ports rejected": Fault(rejected, UNREACHABLE, (0,), "security group of host0"),
    "a silent proxy": Fault(held, UNREACHABLE, (0,), "proxies and sidecars away from the job's"),
    "the loopback": Fault(settings_alone, WRONG, (0, 1), EXPORT, LO),
    "one bridge everywhere": Fault(bridges, WRONG, (0, 1), EXPORT, DOCKER0),
    "a card of another network": Fault(idle_cards, UNREACHABLE, (0, 1), EXPORT, ETH1),
    "IPv4 and IPv6": Fault(two_families, "network/mixed-address-families", (0,), EXPORT),
    "large packets lost": Fault(large_ones_lost, "network/lossy-link", (1,), "set that MTU"),
}


# The probes of the others are tried on real hosts beside their checks' tests.
WHOLE_RUNS = ("ephemeral ports dropped", "a silent proxy", "a card of another network")


@pytest.mark.parametrize(
    "name",
    [n if n in WHOLE_RUNS else pytest.param(n, marks=pytest.mark.thorough) for n in FAULTS],
)
def test_a_fault_of_the_network_ends_a_run_with_one_error(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    with made_hosts(2) as hosts, fault.make(hosts):
        ended = run_ranks(tmp_path / "reports", hosts, env_per_host=[fault.environ] * 2)
    assert ended.exit_codes == (1, 1), ended.stderr
    (error,) = [e for e in ended.report.findings if e.severity is Severity.ERROR]
    assert (error.id, tuple(error.ranks)) == (fault.check, fault.ranks)
    assert fault.fix in error.fix
    assert ended.report.verdict is Verdict.FAIL
    after = {each.id: each.outcome for each in ended.report.checks if each.stage in ECHOES}
    assert set(after.values()) == {CheckOutcome.SKIP}
    assert ended.took_s < BOUND_S


def test_ports_that_gloo_does_not_need_stop_nobody(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        block(hosts[1], "DROP")
        ended = run_ranks(tmp_path / "reports", hosts)
    # The group was joined and all-reduces were right: a no-go would have been false.
    assert ended.exit_codes == (0, 0), ended.stderr
    assert ended.found() == {UNREACHABLE: "warning"}
    outcomes = {each.id: each.outcome for each in ended.report.checks}
    assert outcomes["collectives/no-process-group"] == CheckOutcome.PASS
    assert outcomes["collectives/wrong-values"] == CheckOutcome.PASS


@pytest.mark.parametrize("name", ["one bridge everywhere", "a card of another network"])
def test_what_is_not_chosen_does_no_harm(name: str, tmp_path: Path) -> None:
    with made_hosts(2) as hosts, FAULTS[name].make(hosts):
        ended = run_ranks(tmp_path / "reports", hosts, GLOO_SOCKET_IFNAME="eth0")
    assert ended.exit_codes == (0, 0), ended.stderr
    assert ended.found() == {}
