import sys
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_PACKET
from typing import NamedTuple

import psutil
import pytest
from hosts import made_hosts

from ddpcheck.machine.interfaces import Interface, Kind, interfaces, kind_of, loopback_domain


class Told(NamedTuple):
    """An address as psutil tells it."""

    family: int
    address: str
    netmask: str | None


class State(NamedTuple):
    """What psutil tells of an interface."""

    isup: bool
    mtu: int


TOLD = {
    "lo": [
        Told(AF_INET, "127.0.0.1", "255.0.0.0"),
        Told(AF_INET6, "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ],
    "eth0": [
        Told(AF_INET6, "fe80::1%eth0", "ffff:ffff:ffff:ffff::"),
        Told(AF_INET, "10.0.0.1", "255.255.240.0"),
        Told(AF_PACKET, "52:54:00:12:34:56", None),
    ],
    "eth1": [Told(AF_PACKET, "52:54:00:12:34:57", None)],
    "tun0": [Told(AF_INET, "10.8.0.2", None)],
}
SHOW = (
    "from ddpcheck.machine.interfaces import interfaces, loopback_domain\n"
    "for each in interfaces():\n"
    "    print(each.name, each.kind.value, each.running, *each.addresses)\n"
    "print(loopback_domain('same'))\n"
)


def sysfs(root: Path, **files: str) -> Path:
    place = root / "sys/class/net/x0"
    place.mkdir(parents=True)
    for name, text in {"ifindex": "4", "iflink": "4", "type": "1", **files}.items():
        if text:
            (place / name).write_text(f"{text}\n")
        else:
            (place / name).mkdir()
    return root


def test_addresses_are_told_with_their_prefix_those_of_ipv4_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: TOLD)
    monkeypatch.setattr(psutil, "net_if_stats", lambda: {"eth0": State(isup=True, mtu=9000)})
    assert interfaces(tmp_path) == [
        Interface("lo", Kind.LOOPBACK, False, 0, ("127.0.0.1/8", "::1/128")),
        Interface("eth0", Kind.VIRTUAL, True, 9000, ("10.0.0.1/20", "fe80::1/64")),
        Interface("tun0", Kind.VIRTUAL, False, 0, ("10.8.0.2/32",)),
    ]


def test_where_the_kernel_tells_nothing_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError

    monkeypatch.setattr(psutil, "net_if_stats", refuse)
    assert interfaces() == []


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"type": "772"}, Kind.LOOPBACK),
        ({"device": ""}, Kind.PHYSICAL),
        ({"bridge": "", "uevent": "DEVTYPE=bridge"}, Kind.BRIDGE),
        ({"bonding": "", "uevent": "DEVTYPE=bond"}, Kind.BOND),
        ({"uevent": "DEVTYPE=vlan", "iflink": "2", "lower_eth0": ""}, Kind.VLAN),
        ({"type": "65534"}, Kind.TUNNEL),
        ({"type": "769"}, Kind.TUNNEL),
        ({"uevent": "INTERFACE=x0\nDEVTYPE=vxlan"}, Kind.TUNNEL),
        ({"type": "32", "device": ""}, Kind.PHYSICAL),
        ({"iflink": "9"}, Kind.VETH),
        ({"iflink": "2", "lower_eth0": ""}, Kind.VIRTUAL),
        ({}, Kind.VIRTUAL),
        ({"type": "garbage"}, Kind.VIRTUAL),
    ],
)
def test_kind(files: dict[str, str], kind: Kind, tmp_path: Path) -> None:
    assert kind_of("x0", sysfs(tmp_path, **files)) is kind


def test_loopback_domain_is_told_by_kernel_and_network(tmp_path: Path) -> None:
    here = loopback_domain("host")
    assert here == loopback_domain("another name")
    assert loopback_domain("host", tmp_path) == "host"
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/net").touch()
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("5e1f\n")
    assert loopback_domain("host", tmp_path) not in (here, "host")


def test_real_hosts_tell_their_interfaces() -> None:
    with made_hosts(2) as hosts:
        hosts[0].add_interface("docker0", "172.17.0.1/16")
        hosts[0].add_interface("tun0", "10.8.0.1/24", "tun")
        told = [host.run([sys.executable, "-c", SHOW]).stdout.splitlines() for host in hosts]
    seen = {line.split()[0]: line for line in told[0][:-1]}
    assert seen["lo"].startswith("lo loopback True 127.0.0.1/8")
    assert seen["eth0"].startswith("eth0 veth True 10.77.0.1/24")
    assert seen["docker0"].startswith("docker0 bridge True 172.17.0.1/16")
    assert seen["tun0"].startswith("tun0 tunnel False 10.8.0.1/24")
    assert told[0][-1] != told[1][-1]
