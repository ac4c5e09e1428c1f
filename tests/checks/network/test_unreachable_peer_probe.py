import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from contexts import context_with
from hosts import Host, made_hosts
from probes_on_hosts import probed

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.network.unreachable_peer import judge, probe
from ddpcheck.network.reach import Reached
from ddpcheck.network.roster import ephemeral_ports

CHECK = "network/unreachable-peer"
PORTS = ephemeral_ports().replace("-", ":")


def kinds(facts: Mapping[int, Any]) -> dict[str, Reached]:
    return {
        f"{own.here.host}>{each.host}": each.kind for own in facts.values() for each in own.attempts
    }


def block(host: Host, *target: str, chain: str = "INPUT") -> None:
    """Let no connection come in, or go out, to an ephemeral port; those that are there live on."""
    host.iptables("-A", chain, "-p", "tcp", "--dport", PORTS, "--syn", "-j", *target)


def test_healthy_hosts(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, ranks_per_host=2)
    assert set(kinds(facts).values()) == {Reached.OPEN}
    assert len(kinds(facts)) == 6
    assert {own.here.host: own.here.address for own in facts.values()} == {
        host.name: host.address for host in hosts
    }
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (["DROP"], Reached.FILTERED),
        (["REJECT"], Reached.REFUSED),
        (["REJECT", "--reject-with", "tcp-reset"], Reached.REFUSED),
        (["REJECT", "--reject-with", "icmp-admin-prohibited"], Reached.NO_ROUTE),
        (["REJECT", "--reject-with", "icmp-host-prohibited"], Reached.NO_ROUTE),
    ],
)
def test_a_firewall_on_one_host(tmp_path: Path, target: Sequence[str], kind: Reached) -> None:
    with made_hosts(3) as hosts:
        block(hosts[1], *target)
        facts = probed(CHECK, hosts, tmp_path)
    assert {pair for pair, each in kinds(facts).items() if each is kind} == {
        "host0>host1",
        "host2>host1",
    }
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert "iptables" in finding.fix


def test_a_host_that_lets_nothing_out(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        block(hosts[2], "DROP", chain="OUTPUT")
        facts = probed(CHECK, hosts, tmp_path)
    (finding,) = judge(facts)
    assert finding.ranks == (2,)


def test_no_route(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        hosts[0].ip("route", "add", "unreachable", f"{hosts[2].address}/32")
        facts = probed(CHECK, hosts, tmp_path)
    assert kinds(facts)["host0>host2"] is Reached.NO_ROUTE
    assert judge(facts) != []


def test_a_proxy_that_takes_what_is_for_the_listener(tmp_path: Path) -> None:
    # As a sidecar does it: all incoming connections go to its own port.
    proxy = "import socket; s = socket.create_server(('0.0.0.0', 15006)); print(flush=True)\n"
    with made_hosts(2) as hosts:
        sidecar = hosts[1].start(
            [sys.executable, "-c", f"{proxy}while True: s.accept()[0].close()"],
            stdout=subprocess.PIPE,
        )
        assert sidecar.stdout is not None
        sidecar.stdout.readline()
        redirect = ["-p", "tcp", "--dport", PORTS, "-j", "REDIRECT", "--to-ports", "15006"]
        hosts[1].iptables("-t", "nat", "-A", "PREROUTING", *redirect)
        facts = probed(CHECK, hosts, tmp_path)
    assert kinds(facts)["host0>host1"] is Reached.CLOSED
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert "sidecar" in finding.fix


def test_ranks_of_one_host_are_skipped(tmp_path: Path) -> None:
    with made_hosts(1) as hosts:
        told = probed(CHECK, hosts, tmp_path, ranks_per_host=3)
    assert set(told.values()) == {"all ranks are on one host"}


def test_a_rank_that_never_comes_keeps_nobody(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, absent=1)
    assert set(kinds(facts)) == {"host0>host1", "host1>host0"}
    assert judge(facts) == []


def test_alone_is_skipped() -> None:
    with pytest.raises(Skip, match="no other rank"):
        probe(context_with())


def test_ranks_that_cannot_meet_are_skipped() -> None:
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(meeting=Meeting("node0:29500", 1.0, "refused"), world_size=2))
