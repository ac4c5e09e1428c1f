"""Made-up trees of /sys and /dev of machines with InfiniBand or RoCE devices."""

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path

V1, V2 = "IB/RoCE v1", "RoCE v2"
STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
LINKS = {"Sleep": 1, "Polling": 2, "Disabled": 3, "LinkUp": 5}
LINK_LOCAL = "fe80::966d:aeff:fe12:3456"
# As mlx5 fills the table of a port whose interface has an IPv4 address.
USUAL = {0: (LINK_LOCAL, V1), 1: (LINK_LOCAL, V2), 2: ("10.0.0.1", V1), 3: ("10.0.0.1", V2)}
TABLE_COUNT = 8


def add_device(
    root: Path,
    device: str,
    *,
    layer: str = "InfiniBand",
    state: str = "ACTIVE",
    link: str = "LinkUp",
    gids: Mapping[int, tuple[str, str]] | None = None,
    ports: Sequence[int] = (1,),
    shown: bool = True,
) -> None:
    """Add a device as the kernel shows it; ``shown`` is whether /dev has its node."""
    for port in ports:
        place = root / "sys/class/infiniband" / device / "ports" / str(port)
        _write(place / "state", f"{STATES[state]}: {state}")
        _write(place / "phys_state", f"{LINKS[link]}: {link}")
        _write(place / "link_layer", layer)
        _write(place / "rate", "200 Gb/sec (4X HDR)")
        for index in range(TABLE_COUNT):
            address, kind = (gids or {}).get(index, ("::", ""))
            _write(place / "gids" / str(index), _written(address))
            # Reading the kind of an empty place fails in the kernel.
            if kind:
                _write(place / "gid_attrs/types" / str(index), kind)
                _write(place / "gid_attrs/ndevs" / str(index), "eth2")
    number = len([*root.glob("sys/class/infiniband_verbs/uverbs*")])
    _write(root / f"sys/class/infiniband_verbs/uverbs{number}/ibdev", device)
    if shown:
        _write(root / f"dev/infiniband/uverbs{number}", "")


def _written(address: str) -> str:
    parsed = ipaddress.ip_address(address)
    if parsed.version == 4:
        parsed = ipaddress.IPv6Address(f"::ffff:{parsed}")
    return parsed.exploded


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")
