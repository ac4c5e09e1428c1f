"""The NVIDIA driver's complaints (Xid) in the kernel's log, since it was loaded.

Source: NVIDIA, "Xid Errors" (docs.nvidia.com/deploy/xid-errors); the records of /dev/kmsg:
Linux, Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ddpcheck.machine.pci import pci_address

RECORD_BYTES = 8192  # the kernel never returns more at once
KEPT_TEXT_COUNT = 120  # characters: the rest is registers
# Priority, number, microseconds since the boot, flags; then the text.
RECORD = re.compile(r"\d+,\d+,(?P<at_us>\d+),[^;]*;(?P<text>.*)")
# As in: NVRM: Xid (PCI:0000:17:00): 79, pid=1234, name=python, GPU has fallen off the bus.
XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[\da-f]+:[\da-f]+:[\da-f]+(?:\.\d)?)[^)]*\): "
    r"(?P<code>\d+)(?:, (?:pid=[^,]*, )?(?:name=[^,]*, )?(?P<text>.*))?",
    re.IGNORECASE,
)
FATAL = "Fatal"  # NVLink's own word, as in "149, NETIR_LINK_EVT Fatal XC0"; the rest: Nonfatal
LOADED = "NVRM: loading NVIDIA"  # all GPUs were set up anew: what came before is over


class Xid(msgspec.Struct, frozen=True):
    """One kind of complaint about one GPU: how often, how long ago last, and its last words."""

    pci: str
    code: int
    count: int
    age_s: float
    text: str


def xids(root: Path = Path("/")) -> tuple[Xid, ...] | str:
    """Return the complaints since the driver was loaded, or why the log cannot be read."""
    try:
        log = _records(root / "dev/kmsg")
    except OSError as error:
        return f"the kernel log cannot be read ({error.strerror}): run as root to look into it"
    return parse(log, time.clock_gettime(time.CLOCK_MONOTONIC))


def parse(log: str, now_s: float) -> tuple[Xid, ...]:
    """Return the complaints in a log in the form of /dev/kmsg; times count from the boot."""
    found: dict[tuple[str, int, bool], Xid] = {}
    for at_s, line in _lines(log):
        if LOADED in line:
            found.clear()
        elif told := XID.search(line):
            text = (told["text"] or "").strip()[:KEPT_TEXT_COUNT]
            pci, code = pci_address(told["pci"]), int(told["code"])
            kind = (pci, code, FATAL in text)
            count = found[kind].count + 1 if kind in found else 1
            found[kind] = Xid(pci, code, count, max(0.0, round(now_s - at_s, 1)), text)
    return tuple(found.values())


def _lines(log: str) -> Iterator[tuple[float, str]]:
    """Yield the time and the text of each record; lines that begin with a space belong to one."""
    for line in log.splitlines():
        if record := RECORD.match(line):
            yield int(record["at_us"]) / 1e6, record["text"]


def _records(path: Path) -> str:
    log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return b"".join(_chunks(log)).decode(errors="replace")
    finally:
        os.close(log)


def _chunks(log: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(log, RECORD_BYTES)
        except BlockingIOError:
            return  # all has been read
        except OSError as error:
            if error.errno != errno.EPIPE:  # a record was overwritten: go on with the next
                raise
            continue
        if not chunk:
            return
        yield chunk
