"""How much memory is left to this process: the machine's, or what its control group allows."""

from __future__ import annotations

import re
from pathlib import Path

from ddpcheck.machine.cgroups import Room, memory_room
from ddpcheck.machine.files import text_of

KIB_BYTES = 1024


def tightest_memory(root: Path = Path("/")) -> tuple[str, Room] | None:
    """Return where the least is left, and its limit and use in bytes; None where nothing tells."""
    rooms = {"the control group": memory_room(root), "the machine": machine_memory(root)}
    told = {place: room for place, room in rooms.items() if room is not None}
    return min(told.items(), key=lambda pair: pair[1].left, default=None)


def machine_memory(root: Path = Path("/")) -> Room | None:
    """Return the machine's memory, and how much of it the kernel could not give away, in bytes."""
    text = text_of(root / "proc/meminfo")
    pairs: list[tuple[str, str]] = re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    told = {name: int(number) * KIB_BYTES for name, number in pairs}
    if not {"MemTotal", "MemAvailable"} <= told.keys():
        return None
    return Room(told["MemTotal"], told["MemTotal"] - told["MemAvailable"])
