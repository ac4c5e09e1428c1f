from pathlib import Path

from hosts import INTERFACE, made_hosts
from probes_on_hosts import probed

from ddpcheck.checks.network.lossy_link import judge
from ddpcheck.finding import Severity

CHECK = "network/lossy-link"


def test_healthy_hosts(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        facts = probed(CHECK, hosts, tmp_path, ranks_per_host=2)
    links = [link for own in facts.values() for link in own.links]
    assert [link.talk.large_s is not None for link in links] == [True] * 6
    assert {link.talk.path_mtu_bytes for link in links} == {1500}
    assert judge(facts) == []


def test_a_host_that_loses_packets(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        # One packet each, as on a wire; and every 25th is lost: 4 %.
        for host in hosts:
            host.ip("link", "set", "dev", INTERFACE, "gso_max_segs", "1")
        every = ["-m", "statistic", "--mode", "nth", "--every", "25", "--packet", "0"]
        hosts[1].iptables("-A", "INPUT", "-p", "tcp", *every, "-j", "DROP")
        facts = probed(CHECK, hosts, tmp_path)
    found = judge(facts)
    (finding,) = [each for each in found if each.ranks == (1,)]
    assert "host0 to host1" in finding.message
    # What host1 sends may be sent again, too: the answers to it are lost on their way in.
    assert {each.severity for each in found} == {Severity.WARNING}
    assert all("host1" in each.message for each in found)


def test_large_packets_that_get_lost(tmp_path: Path) -> None:
    with made_hosts(3) as hosts:
        large = ["-m", "length", "--length", "1401:"]
        hosts[2].iptables("-A", "INPUT", "-p", "tcp", *large, "-j", "DROP")
        facts = probed(CHECK, hosts, tmp_path)
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR
    assert finding.ranks == (2,)
    assert "mtu" in finding.fix


def test_an_mtu_that_the_switch_does_not_have(tmp_path: Path) -> None:
    with made_hosts(2) as hosts:
        hosts[0].ip("link", "set", "dev", INTERFACE, "mtu", "9000")
        facts = probed(CHECK, hosts, tmp_path)
    # TCP agrees on the smaller size of both ends: what differs is no fault by itself.
    assert judge(facts) == []


def test_ranks_of_one_host_are_skipped(tmp_path: Path) -> None:
    with made_hosts(1) as hosts:
        told = probed(CHECK, hosts, tmp_path, ranks_per_host=2)
    assert set(told.values()) == {"all ranks are on one host"}
