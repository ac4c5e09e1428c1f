import json
import sys

import pytest
from hosts import made_hosts

from ddpcheck.machine.interfaces import Interface, Kind
from ddpcheck.network.choice import called_by_others, gloo_choice, nccl_choice, owner_of


def made(name: str, *addresses: str, kind: Kind = Kind.PHYSICAL, running: bool = True) -> Interface:
    return Interface(name, kind, running, 1500, addresses)


LO = made("lo", "127.0.0.1/8", "::1/128", kind=Kind.LOOPBACK)
ETH0 = made("eth0", "10.0.0.1/24", "fe80::1/64")
ETH1 = made("eth1", "10.1.0.1/24")
ETH10 = made("eth10", "10.10.0.1/24")
IB0 = made("ib0", "192.168.9.1/24")
DOCKER0 = made("docker0", "172.17.0.1/16", kind=Kind.BRIDGE)
VIRBR0 = made("virbr0", "192.168.122.1/24", kind=Kind.BRIDGE)
VETH = made("veth42", "fe80::42/64", kind=Kind.VETH)
SIX = made("eth6", "fd00::6/64", "fe80::6/64")
HOST = [LO, ETH0, ETH1, ETH10, DOCKER0, VIRBR0, VETH]


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("eth0", ["eth0"]),
        ("eth1", ["eth1", "eth10"]),
        ("=eth1", ["eth1"]),
        ("eth", ["eth0", "eth1", "eth10"]),
        ("=eth10,eth0", ["eth0", "eth10"]),
        ("docker,eth0", ["eth0", "docker0"]),
        ("^docker", ["lo", "eth0", "eth1", "eth10", "virbr0", "veth42"]),
        ("^docker0", ["lo", "eth0", "eth1", "eth10", "virbr0", "veth42"]),
        ("^docker,lo,virbr,veth", ["eth0", "eth1", "eth10"]),
        ("^=eth1", ["lo", "eth0", "eth10", "docker0", "virbr0", "veth42"]),
        ("^=lo,docker0", ["eth0", "eth1", "eth10", "virbr0", "veth42"]),
        ("eth0:1", ["eth0"]),
        ("lo", ["lo"]),
        ("eth0,", ["eth0"]),
        # One letter is no setting: the default order holds.
        ("^", ["eth0", "eth1", "eth10", "veth42"]),
        ("", ["eth0", "eth1", "eth10", "veth42"]),
    ],
)
def test_nccl_follows_its_setting(setting: str, names: list[str]) -> None:
    choice = nccl_choice(HOST, {"NCCL_SOCKET_IFNAME": setting})
    assert [each.interface for each in choice.chosen] == names
    assert (choice.missing, choice.idle) == ((), ())


@pytest.mark.parametrize(
    ("interfaces", "names"),
    [
        ([LO, ETH0, IB0], ["ib0"]),
        ([LO, DOCKER0, ETH0], ["eth0"]),
        ([LO, DOCKER0], ["docker0"]),
        ([LO, VIRBR0], ["lo"]),
        ([LO], ["lo"]),
        ([LO, made("eth0", "10.0.0.1/24", running=False), DOCKER0], ["docker0"]),
    ],
)
def test_nccl_without_a_setting_has_an_order(interfaces: list[Interface], names: list[str]) -> None:
    assert [each.interface for each in nccl_choice(interfaces, {}).chosen] == names


@pytest.mark.parametrize(
    ("settings", "addresses"),
    [
        ({}, ["10.0.0.1", "fd00::6"]),
        ({"NCCL_SOCKET_FAMILY": "AF_INET"}, ["10.0.0.1"]),
        ({"NCCL_SOCKET_FAMILY": "AF_INET6"}, ["fe80::1", "fd00::6"]),
        ({"NCCL_SOCKET_FAMILY": "nonsense"}, ["10.0.0.1", "fd00::6"]),
        ({"NCCL_COMM_ID": "10.0.0.7:4000"}, ["10.0.0.1"]),
        ({"NCCL_COMM_ID": "[fd00::9]:4000"}, ["fd00::6"]),
        ({"NCCL_COMM_ID": "somewhere:4000"}, ["10.0.0.1", "fd00::6"]),
        ({"NCCL_COMM_ID": "8.8.8.8:4000"}, ["10.0.0.1", "fd00::6"]),
    ],
)
def test_nccl_takes_one_address_of_each(settings: dict[str, str], addresses: list[str]) -> None:
    chosen = nccl_choice([LO, ETH0, SIX], settings).chosen
    assert [each.address for each in chosen] == addresses


def test_nccl_tells_what_its_setting_does_not_mean() -> None:
    down = made("eth2", "10.2.0.1/24", running=False)
    nothing = nccl_choice([LO, ETH0], {"NCCL_SOCKET_IFNAME": "ens"})
    assert (nothing.chosen, nothing.missing) == ((), ("ens",))
    idle = nccl_choice([LO, ETH0, down], {"NCCL_SOCKET_IFNAME": "eth2"})
    assert (idle.chosen, idle.missing, idle.idle) == ((), (), ("eth2",))
    forced = nccl_choice([LO, ETH1], {"NCCL_SOCKET_FAMILY": "AF_INET6"})
    assert "AF_INET6" in forced.missing[0]


def test_nccl_takes_no_more_than_it_has_room_for() -> None:
    many = [made(f"eth{n}", f"10.{n}.0.1/24") for n in range(40)]
    assert len(nccl_choice(many, {}).chosen) == 16


@pytest.mark.parametrize(
    ("setting", "addresses", "missing"),
    [
        ("eth0", ["10.0.0.1"], ()),
        ("eth0,eth1", ["10.0.0.1", "10.1.0.1"], ()),
        ("eth6", ["fd00::6"], ()),
        ("eth", [], ("eth",)),
        ("^docker0", [], ("^docker0",)),
        ("eth0,eth9", ["10.0.0.1"], ("eth9",)),
        ("eth0,", ["10.0.0.1"], ()),
        ("", ["10.0.0.1"], ()),
        ("x", ["10.0.0.1"], ()),
    ],
)
def test_gloo_takes_names_as_they_are(
    setting: str, addresses: list[str], missing: tuple[str, ...]
) -> None:
    choice = gloo_choice([LO, ETH0, ETH1, SIX], {"GLOO_SOCKET_IFNAME": setting}, "10.0.0.1")
    assert [each.address for each in choice.chosen] == addresses
    assert choice.missing == missing


def test_an_address_has_an_owner() -> None:
    assert owner_of("10.1.0.1", HOST).interface == "eth1"
    assert owner_of("127.0.1.1", HOST).interface == "lo"
    assert owner_of("10.9.9.9", HOST).interface == ""


@pytest.mark.parametrize(
    ("addresses", "called"),
    [
        ({"a": ["10.0.0.1"], "b": ["127.0.1.1"]}, {"a"}),
        ({"a": ["192.168.0.1"], "b": ["127.0.1.1"]}, {"b"}),
        ({"a": ["127.0.1.1"], "b": ["127.0.1.1"]}, {"a", "b"}),
        ({"a": ["10.0.0.1"], "b": ["127.0.0.1"], "c": ["127.0.1.1"]}, {"a", "b"}),
        ({"a": ["10.0.0.1"], "b": ["fd00::1"]}, set[str]()),
        ({"a": ["10.0.0.1", "127.0.0.1"], "b": ["10.0.0.2", "127.0.0.1"]}, {"a", "b"}),
        ({"a": [], "b": []}, set[str]()),
    ],
)
def test_the_higher_address_calls(addresses: dict[str, list[str]], called: set[str]) -> None:
    assert called_by_others(addresses) == called


# What torch's gloo does: the addresses at which it listens, for each of these settings.
REAL = """
import json, os, sys
import psutil, torch.distributed as dist
from ddpcheck.machine.interfaces import interfaces
from ddpcheck.network.choice import gloo_choice
from ddpcheck.network.names import own_name

def listening():
    own = psutil.Process().net_connections("tcp")
    return {(each.laddr.ip, each.laddr.port) for each in own if each.status == "LISTEN"}

told = []
groups = []
for names in json.loads(sys.argv[2]):
    with open("/etc/hosts", "w") as file:
        file.write(names)
    own_name.cache_clear()
    for setting in json.loads(sys.argv[1]):
        os.environ["GLOO_SOCKET_IFNAME"] = setting
        before = listening()
        groups.append(dist.ProcessGroupGloo(dist.HashStore(), 0, 1))
        real = sorted({ip for ip, _ in listening() - before})
        choice = gloo_choice(interfaces(), os.environ, own_name(os.uname().nodename).usable)
        told.append([real, sorted({each.address for each in choice.chosen})])
print(json.dumps(told))
"""


def test_gloo_really_takes_it() -> None:
    settings = ["", "eth0", "eth0,docker0", "lo", "x"]
    etc_hosts = ["127.0.1.1 host0", "10.77.0.1 host0", "10.77.0.9 host0\n10.77.0.1 host0", ""]
    with made_hosts(1) as (host,):
        host.add_interface("docker0", "172.17.0.1/16")
        done = host.run([sys.executable, "-c", REAL, json.dumps(settings), json.dumps(etc_hosts)])
    pairs = json.loads(done.stdout)
    assert [real for real, _ in pairs] == [ours for _, ours in pairs]
    assert [real for real, _ in pairs[:3]] == [
        ["127.0.1.1"],
        ["10.77.0.1"],
        ["10.77.0.1", "172.17.0.1"],
    ]
