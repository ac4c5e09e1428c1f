"""Xid lines, as drivers of several years wrote them."""

import os
from pathlib import Path

import pytest

from ddpcheck.machine.kernel_log import Xid, parse, xids

FELL = "4,1200,9000000,-;NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus.\n"
FAULT = (
    "4,1300,10000000,-;NVRM: Xid (PCI:0000:00:06): 31, pid=79749, name=exe, Ch 0000000a, intr "
    "00000000. MMU Fault: ENGINE GRAPHICS GPC2 GPCCLIENT_T1_7 faulted @ 0x2b57_b3000000.\n"
)
REMAP = (
    "4,1400,11000000,-;NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for "
    "remapping, reset gpu to activate.\n"
)
OLD = "4,1500,12000000,-;NVRM: Xid (0000:01:00): 13, 0005 00000000 0000502d 00000104\n"
SLICE = "4,1600,13000000,-;NVRM: Xid (PCI:0000:17:00 GPU-I:05): 94, pid='<unknown>', Contained\n"
LOADED = (
    "4,1700,14000000,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n"
    " SUBSYSTEM=pci\n"
)


@pytest.mark.parametrize(
    ("line", "pci", "code", "text"),
    [
        (FELL, "0000:2b:00.0", 79, "GPU has fallen off the bus."),
        (FAULT, "0000:00:06.0", 31, "Ch 0000000a"),
        (REMAP, "0000:10:1c.0", 63, "Row Remapper"),
        (OLD, "0000:01:00.0", 13, "0005"),
        (SLICE, "0000:17:00.0", 94, "Contained"),
        ("4,1,9000000,c,caller=T1;NVRM: Xid (PCI:0000:2B:00): 79\n", "0000:2b:00.0", 79, ""),
    ],
)
def test_lines(line: str, pci: str, code: int, text: str) -> None:
    (found,) = parse(line, 20.0)
    assert (found.pci, found.code, found.count) == (pci, code, 1)
    assert found.text.startswith(text)


def test_the_same_complaint_is_counted_and_dated_by_its_last() -> None:
    again = FELL.replace("9000000", "15000000")
    assert parse(FELL + FAULT + again, 20.0)[0] == Xid(
        "0000:2b:00.0", 79, 2, 5.0, "GPU has fallen off the bus."
    )


def test_a_fatal_line_is_not_lost_among_others() -> None:
    fatal = (
        "4,1,9000000,-;NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01\n"
    )
    other = fatal.replace("Fatal", "Nonfatal")
    assert [(each.count, each.text[:22]) for each in parse(fatal + other + other, 20.0)] == [
        (1, "NETIR_LINK_EVT  Fatal "),
        (2, "NETIR_LINK_EVT  Nonfat"),
    ]


def test_what_was_before_the_driver_was_loaded_is_over() -> None:
    assert [each.code for each in parse(FELL + LOADED + SLICE, 20.0)] == [94]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "garbage",
        "4,1,9000000,-;NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.\n",
        "4,1,9000000,-;NVRM: Xid (PCI:0000:66:00): abc, pid=2280636\n",
        " NVRM: Xid (PCI:0000:2b:00): 79, a line that belongs to a record\n",
    ],
)
def test_other_lines(line: str) -> None:
    assert parse(line, 20.0) == ()


def test_a_log_that_is_not_there_is_a_reason(tmp_path: Path) -> None:
    told = xids(tmp_path)
    assert isinstance(told, str)
    assert "No such file" in told


def test_a_device_is_read_until_it_has_no_more(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    os.mkfifo(tmp_path / "dev/kmsg")
    writer = os.open(tmp_path / "dev/kmsg", os.O_RDWR)
    try:
        os.write(writer, (FELL * 100).encode())
        found = xids(tmp_path)
    finally:
        os.close(writer)
    assert [(each.code, each.count) for each in found if isinstance(each, Xid)] == [(79, 100)]


def test_the_log_of_this_machine_is_read_or_there_is_a_reason() -> None:
    found = xids()
    assert isinstance(found, tuple) or "kernel log" in found
