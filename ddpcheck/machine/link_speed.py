"""How fast the PCI Express link of a device could be."""

from __future__ import annotations

import re
from pathlib import Path

from ddpcheck.machine.files import text_of

# Decimal GB/s of one lane in one direction, after line coding, by the transfer rate in GT/s.
# Source: PCI Express Base Specification: 8b/10b to 5 GT/s, 128b/130b to 32, 242 of 256 bytes at 64.
LANE_GBPS = {"2.5": 0.25, "5.0": 0.5, "8.0": 0.985, "16.0": 1.969, "32.0": 3.938, "64.0": 7.563}
# The rate of each generation, in the order of the generations.
RATES = tuple(LANE_GBPS)
HIGHEST_WIDTH = 16


def link_gbps(address: str, root: Path = Path("/")) -> float | None:
    """Return what the device and the port it is plugged into could do at best, in one direction.

    Decimal GB/s; None where the kernel does not tell.
    """
    device = root / "sys/bus/pci/devices" / address
    if not device.exists():
        return None
    own = device.resolve()
    known = [rate for place in (own, own.parent) if (rate := _best_gbps(place)) is not None]
    return min(known, default=None)


def generation_gbps(generation: int, width: int | None) -> float:
    """Return the decimal GB/s of a link of this generation; as wide as can be when not known."""
    rate = RATES[min(generation, len(RATES)) - 1]
    return LANE_GBPS[rate] * (width or HIGHEST_WIDTH)


def _best_gbps(place: Path) -> float | None:
    speed = re.match(r"(\d+(?:\.\d+)?) GT/s", text_of(place / "max_link_speed"))
    width = text_of(place / "max_link_width").strip()
    lanes = int(width) if width.isdecimal() else 0
    if speed is None or not 0 < lanes <= HIGHEST_WIDTH:
        return None
    lane_gbps = LANE_GBPS.get(f"{float(speed[1]):.1f}")
    return None if lane_gbps is None else lane_gbps * lanes
