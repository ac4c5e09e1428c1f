from typing import Any

import msgspec
import pytest
from answers import always
from standings import stands

from ddpcheck.machine.interfaces import Interface, Kind
from ddpcheck.network import own_address as module
from ddpcheck.network.choice import Choice, Chosen
from ddpcheck.network.own_address import (
    ADDRESSES_COUNT,
    Wire,
    here,
    here_with_all,
    own_wire,
    told_by,
)
from ddpcheck.network.standing import Standing

ETH0 = Interface("eth0", Kind.PHYSICAL, True, 9000, ("10.1.2.3/16", "fd00::3/64"))
GOOD = Chosen("eth0", "10.1.2.3", Kind.PHYSICAL)
LOOPBACK = Chosen("lo", "127.0.1.1", Kind.LOOPBACK)
LINK_LOCAL = Chosen("eth0", "fe80::1", Kind.PHYSICAL)


@pytest.fixture
def standing_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    def stand(*chosen: Chosen, way: Chosen | None = None) -> None:
        found = msgspec.convert(
            {"host": "", "domain": "", "backend": "", "choice": {"setting": "", "chosen": []}}
            | {"own": {"found": [], "usable": ""}},
            Standing,
        )
        found = msgspec.structs.replace(found, choice=Choice("", chosen), way=way)
        monkeypatch.setattr(module, "standing", always(found))
        monkeypatch.setattr(module, "interfaces", lambda: [ETH0])

    return stand


@pytest.mark.parametrize(
    ("chosen", "way", "address"),
    [
        ([GOOD], None, "10.1.2.3"),
        ([GOOD, LOOPBACK], None, "10.1.2.3"),
        ([LOOPBACK], GOOD, "10.1.2.3"),
        ([LINK_LOCAL], GOOD, "10.1.2.3"),
        ([], GOOD, "10.1.2.3"),
        ([LOOPBACK], None, ""),
        ([], None, ""),
    ],
)
def test_the_address_is_one_that_others_can_reach(
    standing_at: Any, chosen: list[Chosen], way: Chosen | None, address: str
) -> None:
    standing_at(*chosen, way=way)
    assert here("node0", "gloo", {}).address == address
    wire = Wire("eth0", "10.1.0.0/16", 9000) if address else None
    assert own_wire("node0", "gloo", {}) == wire


def test_a_kernel_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "standing", always(None))
    assert here("node0", "gloo", {}).address == ""
    assert here_with_all("node0", None).address == ""
    assert own_wire("node0", "gloo", {}) is None


@pytest.mark.parametrize(
    ("backend", "has_rdma", "told"),
    [
        ("nccl", False, ["10.0.0.1", "10.1.0.1"]),
        ("nccl", True, ["10.0.0.1"]),
        ("gloo", True, ["10.0.0.1", "10.1.0.1"]),
    ],
)
def test_a_backend_tells_all_that_it_uses(backend: str, has_rdma: bool, told: list[str]) -> None:
    used = (("eth0", "10.0.0.1"), ("veth1", "fe80::1"), ("eth1", "10.1.0.1"))
    own = stands("node0", *used, backend=backend, has_rdma=has_rdma, way=("eth2", "10.2.0.1"))
    assert [each.address for each in told_by(own)] == told
    place = here_with_all("node0", own)
    assert [place.address, *place.others, place.spare] == [*told, "10.2.0.1"]


def test_a_way_out_that_is_used_is_not_spare() -> None:
    own = stands("node0", ("eth0", "10.0.0.1"), way=("eth0", "10.0.0.1"))
    assert here_with_all("node0", own).spare == ""


def test_visits_stay_few() -> None:
    many = [(f"eth{n}", f"10.{n}.0.1") for n in range(16)]
    assert len(told_by(stands("node0", *many))) == ADDRESSES_COUNT
