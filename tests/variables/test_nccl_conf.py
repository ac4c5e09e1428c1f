import os
from pathlib import Path

import pytest

from ddpcheck.variables.nccl_conf import ConfFile, conf_files, with_conf_files


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
    assert found.useless == ("NCCL_DEBUG = INFO", "export NCCL_PROTO=LL", "NCCL_IB_DISABLE")


def test_secrets_in_files_are_hidden(root: Path) -> None:
    (root / "etc/nccl.conf").write_text("MY_TOKEN=abc\nexport MY_TOKEN=abc\n")
    assert "abc" not in str(conf_files({}, root))
