from pathlib import Path

import pytest

from ddpcheck.machine.cgroups import Room
from ddpcheck.machine.memory import machine_memory, tightest_memory

MEMINFO = "MemTotal:       1000 kB\nMemFree:          10 kB\nMemAvailable:    400 kB\nHugePages_Total: 0\n"


def made(root: Path, limit: str = "", meminfo: str = MEMINFO) -> Path:
    for name, text in {
        "proc/meminfo": meminfo,
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": limit,
        "sys/fs/cgroup/memory.current": "1024\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_machine_without_a_limit(tmp_path: Path) -> None:
    assert tightest_memory(made(tmp_path)) == ("the machine", Room(1000 * 1024, 600 * 1024))


def test_a_limit_that_is_tighter(tmp_path: Path) -> None:
    root = made(tmp_path, "2048")
    number = (root / "sys/fs/cgroup").stat().st_ino
    assert tightest_memory(root) == ("the control group", Room(2048, 1024, number))


def test_a_limit_that_promises_more_than_there_is(tmp_path: Path) -> None:
    told = tightest_memory(made(tmp_path, str(2**40)))
    assert told is not None
    assert told[0] == "the machine"


@pytest.mark.parametrize("meminfo", ["", "MemTotal: 1000 kB\n"])
def test_nothing_told(meminfo: str, tmp_path: Path) -> None:
    assert tightest_memory(made(tmp_path, meminfo=meminfo)) is None


def test_this_machine() -> None:
    room = machine_memory()
    assert room is not None
    assert 0 < room.used < room.limit
