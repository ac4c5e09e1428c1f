from pathlib import Path

from ddpcheck.machine.shared_memory import shared_memory


def test_no_such_folder(tmp_path: Path) -> None:
    assert shared_memory(tmp_path) is None


def test_a_folder_has_the_space_of_its_file_system(tmp_path: Path) -> None:
    (tmp_path / "dev/shm").mkdir(parents=True)
    space = shared_memory(tmp_path)
    assert space is not None
    assert 0 <= space.free_bytes <= space.size_bytes
