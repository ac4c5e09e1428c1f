from pathlib import Path

import pytest

from ddpcheck.network import nccl_settings
from ddpcheck.network.nccl_settings import nccl_settings as read


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setattr(nccl_settings, "_home", lambda: tmp_path / "home")


def test_the_environment_wins_over_the_users_file_and_that_over_the_systems(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("# all\nNCCL_A=3\nNCCL_B=3\nNCCL_C==eth0\nnonsense\n")
    (tmp_path / "home/.nccl.conf").write_text("NCCL_A=2\nNCCL_B=2")
    told = read({"NCCL_A": "1", "AWS_SECRET": "x"}, tmp_path)
    assert told == {"NCCL_A": "1", "NCCL_B": "2", "NCCL_C": "=eth0"}


def test_a_named_file_replaces_the_users(tmp_path: Path) -> None:
    (tmp_path / "own.conf").write_text("NCCL_B=4\n")
    (tmp_path / "home/.nccl.conf").write_text("NCCL_B=2\nNCCL_D=2\n")
    told = read({"NCCL_CONF_FILE": str(tmp_path / "own.conf")}, tmp_path)
    assert told == {"NCCL_CONF_FILE": str(tmp_path / "own.conf"), "NCCL_B": "4"}


def test_without_files_there_is_the_environment(tmp_path: Path) -> None:
    assert read({"NCCL_A": "1", "PATH": "/bin"}, tmp_path) == {"NCCL_A": "1"}
