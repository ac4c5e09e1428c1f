import subprocess
import sys
from pathlib import Path

from hosts import made_hosts

from ddpcheck.machine.shared_memory import Space, shared_memory

SHOW = "from ddpcheck.machine.shared_memory import shared_memory; print(shared_memory())"


def test_no_such_folder(tmp_path: Path) -> None:
    assert shared_memory(tmp_path) is None


def test_a_folder_has_the_space_of_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    space = shared_memory(tmp_path)
    assert space is not None
    assert 0 <= space.free_bytes <= space.size_bytes
    assert space.device == tmp_path.stat().st_dev


def test_a_real_one_of_a_hosts_own() -> None:
    with made_hosts(1) as (host,):
        host.mount_shared_memory("size=1m,nr_inodes=10")
        told = host.run([sys.executable, "-c", SHOW], check=True).stdout
        device = host.run(["stat", "--format=%d", "/dev/shm"], check=True).stdout
        # The folder itself is the first of the ten.
        assert told.strip() == str(Space(2**20, 2**20, 9, int(device)))
        host.mount_shared_memory("size=1m,nr_inodes=0")
        assert "free_files=None" in host.run([sys.executable, "-c", SHOW], check=True).stdout


def test_this_machines_own_stays_as_it_is() -> None:
    command = [sys.executable, "-c", SHOW]
    before = shared_memory()
    with made_hosts(1) as (host,):
        host.mount_shared_memory("size=1m")
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert before is not None
    assert f"device={before.device}" in told
