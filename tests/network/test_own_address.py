from typing import Any

import msgspec
import pytest
from answers import always

from ddpcheck.machine.interfaces import Interface, Kind
from ddpcheck.network import own_address as module
from ddpcheck.network.choice import Choice, Chosen
from ddpcheck.network.own_address import Wire, here, own_address, own_wire
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
    assert own_address("node0", "gloo", {}) is None
    assert own_wire("node0", "gloo", {}) is None
