import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from answers import always

from ddpcheck.machine import limits
from ddpcheck.machine.limits import (
    IPC_LOCK,
    LOCKED_MEMORY,
    OPEN_FILES,
    Limit,
    has_capability,
    is_free_of_process_limit,
    limit,
    open_file_count,
    thread_count_of_user,
)

STATUS = "Name:\tpython\nUid:\t{uid}\t0\t0\t0\nThreads:\t{threads}\nCapEff:\t{effective:016x}\n"


def made(root: Path, process: str, **values: int) -> None:
    folder = root / "proc" / process
    folder.mkdir(parents=True)
    told = {"uid": 0, "threads": 1, "effective": 0} | values
    (folder / "status").write_text(STATUS.format(**told))


def test_the_limits_are_those_of_the_process_itself() -> None:
    source = (
        "import resource as r\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (100, 200))\n"
        "r.setrlimit(r.RLIMIT_MEMLOCK, (65536, 65536))\n"
        "from ddpcheck.machine.limits import *\n"
        "print(limit(OPEN_FILES), limit(LOCKED_MEMORY))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", source], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == f"{Limit(100, 200)} {Limit(65536, 65536)}"


def test_no_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", always((4096, resource.RLIM_INFINITY)))
    assert limit(OPEN_FILES) == limit(LOCKED_MEMORY) == Limit(4096, None)


def test_open_files_are_counted() -> None:
    before = open_file_count()
    reader, writer = os.pipe()
    assert open_file_count() == before + 2
    os.close(reader)
    os.close(writer)


def test_a_system_without_proc_has_no_count(tmp_path: Path) -> None:
    assert open_file_count(tmp_path) == 0
    assert not has_capability(IPC_LOCK, tmp_path)


@pytest.mark.parametrize(
    ("effective", "has"),
    [(0, False), (1 << IPC_LOCK, True), (0x1FFFFFFFFFF, True), (0xA80425FB, False)],
)
def test_capabilities(effective: int, has: bool, tmp_path: Path) -> None:
    made(tmp_path, "self", effective=effective)
    assert has_capability(IPC_LOCK, tmp_path) == has


@pytest.mark.parametrize(
    ("uid", "effective", "free"),
    [(0, 0, True), (1000, 0, False), (1000, 1 << limits.SYS_RESOURCE, True)],
)
def test_who_is_free_of_the_limit_on_processes(
    uid: int, effective: int, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "self", effective=effective)
    monkeypatch.setattr(os, "getuid", lambda: uid)
    assert is_free_of_process_limit(tmp_path) == free


def test_threads_of_one_user_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    made(tmp_path, "7", uid=1000, threads=5)
    made(tmp_path, "8", uid=1000, threads=2)
    made(tmp_path, "9", uid=100, threads=50)
    (tmp_path / "proc/10").mkdir()  # it ended meanwhile
    assert thread_count_of_user(tmp_path) == 7


def test_this_machine_runs_at_least_this_process() -> None:
    assert thread_count_of_user() >= 1


def test_what_is_held_in_a_user_namespace_lifts_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "self", effective=0x1FFFFFFFFFF)
    (tmp_path / "proc/self/uid_map").write_text("         0          0 4294967295\n")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert has_capability(IPC_LOCK, tmp_path)
    assert is_free_of_process_limit(tmp_path)
    (tmp_path / "proc/self/uid_map").write_text("         0       1000          1\n")
    assert not has_capability(IPC_LOCK, tmp_path)
    assert not is_free_of_process_limit(tmp_path)
