import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from control_groups import group, memory, quota, tasks, within

from ddpcheck.machine.cgroups import Quota, Room, cpu_quota, memory_room, task_room

NO_LIMIT = str(9223372036854771712)


def made(root: Path, own: str, files: Mapping[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def amounts(room: Room | None) -> tuple[int, int] | None:
    """Return the limit and what is used of it."""
    return (room.limit, room.used) if room else None


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
    number = (root / "sys/fs/cgroup").stat().st_ino
    assert cpu_quota(root) == Quota(1.5, number)
    assert memory_room(root) == Room(1000, 400, number)
    assert task_room(root) == Room(2048, 40, number)
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
    slurm = root / "sys/fs/cgroup/slurm"
    assert cpu_quota(root) == Quota(4, (slurm / "job_7").stat().st_ino)
    assert memory_room(root) == Room(5000, 4990, slurm.stat().st_ino)
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
    told = cpu_quota(root)
    assert told is not None
    assert told.cores == 0.5
    assert (amounts(memory_room(root)), task_room(root)) == ((1000, 681), None)


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


def told_within(folder: Path, question: str) -> str:
    """Return what a process in that group answers."""
    source = f"from ddpcheck.machine.cgroups import *\nprint({question})\n"
    command = within(folder, [sys.executable, "-c", source])
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_real_quota_is_seen() -> None:
    with group("cpu", quota(1.5)) as folder:
        assert told_within(folder, "cpu_quota().cores") == "1.5"


def test_a_real_limit_on_memory_is_seen() -> None:
    limit = 256 * 2**20
    with group("memory", memory(limit)) as folder:
        told = told_within(folder, "memory_room().limit, 0 < memory_room().left")
    assert told == f"{limit} True"


def test_a_real_limit_on_processes_is_seen() -> None:
    with group("pids", tasks(20)) as folder:
        told = told_within(folder, "task_room()")
        assert told == str(Room(20, 1, folder.stat().st_ino))


def test_each_group_has_a_number_of_its_own() -> None:
    with group("pids", tasks(20)) as one, group("pids", tasks(20)) as other:
        told = [told_within(folder, "task_room().group") for folder in (one, one, other)]
    assert told[0] == told[1] != told[2]
