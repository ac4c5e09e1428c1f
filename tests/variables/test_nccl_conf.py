import os
from pathlib import Path

import pytest

from ddpcheck.variables.nccl_conf import (
    ConfFile,
    conf_files,
    origins,
    taken_back,
    with_conf_files,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "home/ann").mkdir(parents=True)
    return tmp_path


def test_no_file_is_no_setting(root: Path) -> None:
    assert conf_files({"HOME": "/home/ann"}, root) == []
    assert conf_files({}, root) == []


def test_the_environment_comes_before_the_user_and_the_user_before_the_system(root: Path) -> None:
    (root / "etc/nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_IB_TC=1\nNCCL_PROTO=LL\n")
    (root / "home/ann/.nccl.conf").write_text("NCCL_DEBUG=WARN\nNCCL_IB_TC=2\n")
    environ = {"HOME": "/home/ann", "NCCL_DEBUG": "TRACE"}
    assert [each.path for each in conf_files(environ, root)] == [
        "/home/ann/.nccl.conf",
        "/etc/nccl.conf",
    ]
    effective = with_conf_files(environ, root)
    assert (effective["NCCL_DEBUG"], effective["NCCL_IB_TC"]) == ("TRACE", "2")
    assert effective["NCCL_PROTO"] == "LL"


def test_a_named_file_stands_in_for_the_users(root: Path) -> None:
    (root / "home/ann/.nccl.conf").write_text("NCCL_DEBUG=WARN\n")
    (root / "job.conf").write_text("NCCL_PROTO=Simple\n")
    files = conf_files({"HOME": "/home/ann", "NCCL_CONF_FILE": "/job.conf"}, root)
    assert files == [ConfFile("/job.conf", {"NCCL_PROTO": "Simple"})]


def test_a_named_file_that_is_missing_is_told(root: Path) -> None:
    (found,) = conf_files({"NCCL_CONF_FILE": "/job.conf"}, root)
    assert "no such file" in found.trouble


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(root: Path) -> None:
    (root / "etc/nccl.conf").touch(mode=0)
    (found,) = conf_files({}, root)
    assert "denied" in found.trouble


def test_a_folder_is_told(root: Path) -> None:
    (root / "etc/nccl.conf").mkdir()
    (found,) = conf_files({}, root)
    assert "directory" in found.trouble


def test_lines_are_read_as_nccl_reads_them(root: Path) -> None:
    (root / "etc/nccl.conf").write_text(
        "# NCCL_ALGO=Ring\nNCCL_SOCKET_IFNAME==ens1f0\nNCCL_DEBUG = INFO\n\n"
        "export NCCL_PROTO=LL\nNCCL_IB_TC=1\nNCCL_IB_TC=2\nNCCL_IB_DISABLE\r\n"
    )
    (found,) = conf_files({}, root)
    assert found.settings == {"NCCL_SOCKET_IFNAME": "=ens1f0", "NCCL_IB_TC": "1"}
    assert found.useless == (
        "line 3 (NCCL_DEBUG)",
        "line 5 (NCCL_PROTO)",
        "line 8 (NCCL_IB_DISABLE)",
    )


@pytest.mark.parametrize(
    "line",
    [
        "MY_TOKEN=abc",
        "export MY_TOKEN=abc",
        "export PASSWORD=abc",
        "DATABASE=abc",
        "hunter abc",
        "NCCL_NET_TOKEN=abc",
        "NCCL_NET_TOKEN = abc",
        "export NCCL_NET=https://ann:abc@host/",
        "NCCL_NET=https://ann:abc@host/",
    ],
)
def test_nothing_secret_is_kept_of_a_file_for_anybody(line: str, root: Path) -> None:
    (root / "job.env").write_text(f"{line}\n")
    found = conf_files({"NCCL_CONF_FILE": "/job.env"}, root)
    assert len(found) == 1
    assert "abc" not in str(found)


def test_what_is_not_about_training_is_no_setting(root: Path) -> None:
    (root / "etc/nccl.conf").write_text("DATABASE=db\nNCCL_IB_HCA=mlx5_0\nUCX_TLS=rc\n")
    (found,) = conf_files({}, root)
    assert found == ConfFile("/etc/nccl.conf", {"NCCL_IB_HCA": "mlx5_0", "UCX_TLS": "rc"})


def test_where_a_setting_stands(root: Path) -> None:
    (root / "etc/nccl.conf").write_text("NCCL_DEBUG=INFO\nNCCL_IB_TC=1\nNCCL_PROTO=LL\n")
    (root / "home/ann/.nccl.conf").write_text("NCCL_IB_TC=2\n")
    assert origins({"HOME": "/home/ann", "NCCL_DEBUG": "WARN"}, root) == {
        "NCCL_IB_TC": "/home/ann/.nccl.conf",
        "NCCL_PROTO": "/etc/nccl.conf",
    }


def test_how_settings_are_taken_back() -> None:
    settings = [("A", ""), ("B", "/etc/nccl.conf"), ("C", ""), ("A", ""), ("A", "/etc/nccl.conf")]
    assert taken_back(settings) == "unset A, C; remove B, A from /etc/nccl.conf"
    assert taken_back([]) == ""
