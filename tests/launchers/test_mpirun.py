"""``ddpcheck`` as a rank of Open MPI's mpirun and of MPICH's Hydra."""

import shutil
from pathlib import Path

import pytest
from real_ranks import run
from started import SHORT_TRAINING, assert_healthy, assert_trained, ddpcheck, python, start

OPENMPI = "mpirun.openmpi"
HYDRA = "mpiexec.hydra"
ROOT = ("--allow-run-as-root", "--oversubscribe")


def require(program: str, package: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: apt-get install -y --no-install-recommends {package}")


def test_each_process_of_open_mpis_mpirun_is_a_rank(tmp_path: Path) -> None:
    require(OPENMPI, "openmpi-bin")
    reports = tmp_path / "reports"
    ended = start(reports, OPENMPI, *ROOT, "-n", "2", *python(*ddpcheck(reports)))
    assert_healthy(ended, "openmpi")


def test_each_process_of_mpichs_hydra_is_a_rank(tmp_path: Path) -> None:
    require(HYDRA, "mpich")
    reports = tmp_path / "reports"
    ended = start(reports, HYDRA, "-n", "2", *python(*ddpcheck(reports)))
    assert_healthy(ended, "pmi")


def test_the_processes_of_mpirun_train(tmp_path: Path) -> None:
    require(OPENMPI, "openmpi-bin")
    checked = run(tmp_path / "reports", "--select", "launch")
    report = ["--from", str(checked.report_dir / "latest")]
    words = python("-m", "ddpcheck", "train", *report, *SHORT_TRAINING)
    ended = start(checked.report_dir, OPENMPI, *ROOT, "-n", "2", *words)
    assert ended.exit_code == 0, ended.stderr
    assert_trained(checked.report, "ddp")
