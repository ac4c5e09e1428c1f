import os
import subprocess
import sys
import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddpcheck.machine.cgroups import Room, cpu_quota, memory_room, task_room

GROUPS = Path("/sys/fs/cgroup")
NO_LIMIT = str(9223372036854771712)


def made(root: Path, own: str, files: Mapping[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_groups(tmp_path: Path) -> None:
    assert (cpu_quota(tmp_path), memory_room(tmp_path), task_room(tmp_path)) == (None, None, None)


def test_version_2_in_a_container(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        "0::/\n",
        {
            "cpu.max": "150000 100000\n",
            "memory.max": "1000\n",
            "memory.current": "900\n",
            "memory.stat": "anon 200\ninactive_file 400\nactive_file 100\n",
            "pids.max": "2048\n",
            "pids.current": "40\n",
        },
    )
    assert cpu_quota(root) == 1.5
    assert memory_room(root) == Room(1000, 400)
    assert task_room(root) == Room(2048, 40)
    assert Room(1000, 400).left == 600


def test_version_2_without_limits(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        "0::/user.slice\n",
        {
            "user.slice/cpu.max": "max 100000\n",
            "user.slice/memory.max": "max\n",
            "user.slice/pids.max": "max\n",
        },
    )
    assert (cpu_quota(root), memory_room(root), task_room(root)) == (None, None, None)


def test_the_groups_above_bind_too(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        "0::/slurm/job_7/step_0\n",
        {
            "slurm/job_7/step_0/cpu.max": "max 100000",
            "slurm/job_7/cpu.max": "400000 100000",
            "slurm/job_7/memory.max": "1000",
            "slurm/job_7/memory.current": "100",
            "slurm/memory.max": "5000",
            "slurm/memory.current": "4990",
            "slurm/job_7/pids.max": "30",
            "slurm/job_7/pids.current": "31",
        },
    )
    assert cpu_quota(root) == 4
    assert memory_room(root) == Room(5000, 4990)
    room = task_room(root)
    assert room is not None
    assert room.left == 0


def test_version_1_whose_path_is_the_hosts(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        "9:memory:/docker/abc\n8:pids:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
        {
            "cpu/cpu.cfs_quota_us": "50000\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "1000\n",
            "memory/memory.usage_in_bytes": "990\n",
            "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 9\n",
            "pids/pids.max": "max\n",
        },
    )
    assert (cpu_quota(root), memory_room(root), task_room(root)) == (0.5, Room(1000, 681), None)


def test_version_1_without_limits(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        "9:memory:/\n3:cpu,cpuacct:/../..\n",
        {
            "cpu/cpu.cfs_quota_us": "-1\n",
            "cpu/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": NO_LIMIT,
            "memory/memory.usage_in_bytes": "990\n",
        },
    )
    assert (cpu_quota(root), memory_room(root)) == (None, None)


@contextmanager
def group(controller: str, limits: Mapping[str, str]) -> Generator[Path]:
    """Make a control group with these limits, and remove it."""
    parent = GROUPS / controller if (GROUPS / controller).is_dir() else GROUPS
    folder = parent / f"ddpcheck-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        if not all((folder / name).exists() for name in limits):
            pytest.skip(
                f"the controller {controller} is not handed down here, or is another version"
            )
        for name, text in limits.items():
            (folder / name).write_text(text)
        yield folder
    finally:
        folder.rmdir()


def told_within(folder: Path, question: str) -> str:
    """Return what a process in that group answers."""
    source = (
        "import os, sys\n"
        "open(sys.argv[1] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
        "from ddpcheck.machine.cgroups import *\n"
        f"print({question})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(folder)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_real_quota_is_seen() -> None:
    version_1 = (GROUPS / "cpu").is_dir()
    name, text = ("cpu.cfs_quota_us", "150000") if version_1 else ("cpu.max", "150000 100000")
    with group("cpu", {name: text}) as folder:
        assert told_within(folder, "cpu_quota()") == "1.5"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_real_limit_on_memory_is_seen() -> None:
    name = "memory.limit_in_bytes" if (GROUPS / "memory").is_dir() else "memory.max"
    limit = 256 * 2**20
    with group("memory", {name: str(limit)}) as folder:
        told = told_within(folder, "memory_room().limit, 0 < memory_room().left")
    assert told == f"{limit} True"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_real_limit_on_processes_is_seen() -> None:
    with group("pids", {"pids.max": "20"}) as folder:
        assert told_within(folder, "task_room()") == str(Room(20, 1))
