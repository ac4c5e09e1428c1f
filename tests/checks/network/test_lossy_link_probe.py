from pathlib import Path

import pytest
from hosts import INTERFACE, Host, made_hosts
from probes_on_hosts import found_by, judged, probed, said

CHECK = "network/lossy-link"


def test_healthy_hosts(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, ranks_per_host=2)
    links = [link for own in facts.values() for link in own.links]
    assert [link.talk.large_s is not None for link in links] == [True] * 6
    assert {link.talk.path_mtu_bytes for link in links} == {1500}
    assert judged(CHECK, facts) == []


def lose(host: Host, every: int) -> None:
    """Let one in so many packets that come in get lost."""
    nth = ["-m", "statistic", "--mode", "nth", "--every", str(every), "--packet", "0"]
    host.iptables("-A", "INPUT", "-p", "tcp", *nth, "-j", "DROP")


# The manual promises one packet in a hundred.
@pytest.mark.parametrize(("count", "every"), [(2, 100), (3, 100), (3, 25)])
def test_a_host_that_loses_packets(count: int, every: int, tmp_path: Path) -> None:
    with made_hosts(count) as hosts:
        # One packet each, as on a wire.
        for host in hosts:
            host.ip("link", "set", "dev", INTERFACE, "gso_max_segs", "1")
        lose(hosts[1], every)
        found = found_by(CHECK, hosts, tmp_path)
    (finding,) = [each for each in found if each.ranks == (1,)]
    # By which of the others it shows is for chance to say.
    assert "to host1: " in finding.message
    assert "ip -s link" in finding.fix
    assert "drops and errors on host1" in finding.fix
    # What host1 sends may be sent again, too: the answers to it are lost on their way in.
    assert {(each.id, each.severity) for each in found} == {(CHECK, "warning")}
    assert all("host1" in each.message for each in found)


def test_large_packets_that_get_lost(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        large = ["-m", "length", "--length", "1401:"]
        hosts[2].iptables("-A", "INPUT", "-p", "tcp", *large, "-j", "DROP")
        found = found_by(CHECK, hosts, tmp_path)
    assert said(found) == [(CHECK, "error", (2,))]
    assert "ip link set dev INTERFACE mtu" in found[0].fix


def test_an_mtu_that_the_switch_does_not_have(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        hosts[0].ip("link", "set", "dev", INTERFACE, "mtu", "9000")
        facts = probed(CHECK, hosts, tmp_path)
    # TCP agrees on the smaller size of both ends: what differs is no fault by itself.
    assert judged(CHECK, facts) == []


def test_ranks_of_one_host_are_skipped(tmp_path: Path) -> None:
    with made_hosts(1) as hosts:
        told = probed(CHECK, hosts, tmp_path, ranks_per_host=2)
    assert set(told.values()) == {"all ranks are on one host"}
