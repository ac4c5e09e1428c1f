"""``ddpcheck run`` under a real Slurm of two nodes: a rank of srun, inside a task, in a batch."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm import Cluster, made_cluster
from started import assert_healthy, ddpcheck, python

from ddpcheck.report import RankOutcome, Verdict

MISMATCH = "launch/slurm-tasks-mismatch"
# Every test's hosts are its own, and so are their ports.
PORT = 29400


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with made_cluster() as made:
        yield made


@pytest.mark.parametrize(("nodes", "hosts"), [(1, ("host0",) * 2), (2, ("host0", "host1"))])
def test_each_task_of_srun_is_a_rank(
    cluster: Cluster, nodes: int, hosts: tuple[str, str], tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    srun = ("srun", f"--nodes={nodes}", "--ntasks=2")
    assert_healthy(cluster.run(reports, *srun, *python(*ddpcheck(reports))), "slurm", hosts)


def test_a_task_that_is_alone_in_its_step_starts_the_ranks(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    ended = cluster.run(reports, "srun", "--ntasks=1", *python(*ddpcheck(reports)))
    assert_healthy(ended, "ddpcheck")


def test_a_batch_script_is_no_task_and_its_variables_name_no_rank(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    ended = cluster.batch(reports, ["--ntasks=2"], " ".join(python(*ddpcheck(reports))))
    assert_healthy(ended, "ddpcheck")


def test_one_torchrun_a_node_numbers_the_ranks(cluster: Cluster, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    srun = ("srun", "--nodes=2", "--ntasks-per-node=1")
    ended = cluster.run(reports, *srun, *torchrun(nodes=2), *ddpcheck(reports))
    assert_healthy(ended, "torchrun")


def test_two_torchruns_on_a_node_are_told(cluster: Cluster, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    srun = ("srun", "--nodes=1", "--ntasks=2")
    ended = cluster.run(reports, *srun, *torchrun(nodes=2), *ddpcheck(reports))
    assert ended.found() == {MISMATCH: "warning"}
    (found,) = (each for each in ended.report.findings if each.id == MISMATCH)
    assert found.ranks == (0, 1)
    assert "--ntasks-per-node=1" in found.fix


def test_fewer_tasks_than_the_exported_world_size_are_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    command = " ".join(python(*ddpcheck(reports, "--deadline", "6")))
    place = f"MASTER_ADDR=host0 MASTER_PORT={PORT}"
    exports = f"export {place} RANK=$SLURM_PROCID WORLD_SIZE=3"
    ended = cluster.batch(reports, ["--ntasks=2"], f"srun bash -c '{exports}; exec {command}'")
    report = ended.report
    assert ended.exit_code == 4
    assert (report.verdict, report.run.launcher) == (Verdict.INCOMPLETE, "slurm")
    outcomes = [each.outcome for each in report.ranks]
    assert outcomes == [RankOutcome.FAILED, RankOutcome.FAILED, RankOutcome.LOST]
    assert ended.found() == {
        MISMATCH: "error",
        "launch/inconsistent-ranks": "error",
        "launch/conflicting-launchers": "warning",
    }


def torchrun(nodes: int) -> list[str]:
    """Return a torchrun with one rank, of a job with so many of them."""
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"host0:{PORT}", "--rdzv-id", "job")
    launcher = ("-m", "torch.distributed.run", "--nnodes", str(nodes), "--nproc-per-node", "1")
    return python(*launcher, *meeting)
