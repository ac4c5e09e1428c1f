"""``ddpcheck run`` under a real Slurm of two nodes: a rank of srun, inside a task, in a batch."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm import Cluster, made_cluster
from started import SHORT_TRAINING, assert_healthy, assert_trained, ddpcheck, python

from ddpcheck.finding import Severity
from ddpcheck.report import RankOutcome, Verdict

MISMATCH = "launch/slurm-tasks-mismatch"
OPENMPI = "mpirun.openmpi"
OPENMPI_OPTIONS = ("--allow-run-as-root", "--map-by", "ppr:1:node", "-x", "MASTER_ADDR")
HYDRA = "mpiexec.hydra"
HYDRA_OPTIONS = ("-bootstrap", "slurm", "-ppn", "2")
# Every test's hosts are its own, and so are their ports.
PORT = 29400
# As torch.multiprocessing.spawn in a training script: two ranks beneath each task.
SPAWN = f"""
import os, subprocess, sys
node, nodes = int(os.environ["SLURM_NODEID"]), int(os.environ["SLURM_STEP_NUM_NODES"])
place = {{"MASTER_ADDR": "host0", "MASTER_PORT": "{PORT}", "WORLD_SIZE": str(2 * nodes)}}
ranks = [
    subprocess.Popen(
        [sys.executable, *sys.argv[1:]],
        env=os.environ | place | {{
            "RANK": str(2 * node + local), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": "2"
        }},
    )
    for local in range(2)
]
sys.exit(max(rank.wait() for rank in ranks))
"""
EXAMPLE = Path(__file__).parents[2] / "docs/examples/train.sbatch"
TWO_A_NODE = ("--nodes=1", "--ntasks-per-node=2")


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


@pytest.mark.thorough
def test_one_torchrun_a_node_numbers_the_ranks(cluster: Cluster, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    srun = ("srun", "--nodes=2", "--ntasks-per-node=1")
    ended = cluster.run(reports, *srun, *torchrun(nodes=2), *ddpcheck(reports))
    assert_healthy(ended, "torchrun")


@pytest.mark.thorough
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
    above_info = [each for each in report.findings if each.severity is not Severity.INFO]
    told = {each.id: (each.ranks, each.fix) for each in above_info}
    assert told[MISMATCH][0] == (0, 1)
    assert told[MISMATCH][1].startswith("start as many tasks as ranks: srun")
    ranks, fix = told["launch/inconsistent-ranks"]
    assert (ranks, fix.partition(",")[0]) == ((2,), "start each RANK of 0..WORLD_SIZE-1 once")
    ranks, fix = told["launch/conflicting-launchers"]
    assert (ranks, fix.partition(":")[0]) == ((0, 1), "number the ranks in one place")


def test_fewer_tasks_than_sbatch_was_asked_for_are_told(cluster: Cluster, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    command = " ".join(python(*ddpcheck(reports)))
    ended = cluster.batch(reports, TWO_A_NODE, f"srun --ntasks=1 {command}")
    assert ended.exit_code == 0, ended.stderr
    assert ended.found() == {MISMATCH: "warning"}
    (found,) = (each for each in ended.report.findings if each.id == MISMATCH)
    assert found.ranks == (0, 1)
    assert "SLURM_NTASKS_PER_NODE is 2, and the step has 1 tasks" in found.message
    assert found.fix.endswith("--ntasks-per-node=GPUS, without --ntasks")


def test_as_many_tasks_as_sbatch_was_asked_for_are_its_ranks(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    command = " ".join(python(*ddpcheck(reports)))
    assert_healthy(cluster.batch(reports, TWO_A_NODE, f"srun {command}"), "slurm", ("host0",) * 2)


def test_ranks_in_an_order_of_ones_own_meet_on_the_host_of_rank_0(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports, order = tmp_path / "reports", tmp_path / "order"
    order.write_text("host1\nhost0\n")
    srun = ("srun", "--ntasks=2", "--distribution=arbitrary")
    ended = cluster.run(reports, *srun, *python(*ddpcheck(reports)), SLURM_HOSTFILE=str(order))
    assert_healthy(ended, "slurm", ("host1", "host0"))


def test_one_task_a_node_does_not_drop_the_ranks_that_it_was_to_start(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports = tmp_path / "reports"
    srun = ("srun", "--nodes=2", "--ntasks-per-node=1")
    ended = cluster.run(reports, *srun, *python(*ddpcheck(reports, "--nproc-per-node", "2")))
    assert ended.exit_code == 2
    assert not reports.exists()
    told = sorted(line.partition("ddpcheck: ")[2] for line in ended.stderr.splitlines())
    assert "--nproc-per-node 2: slurm has numbered this process as rank 0 of 2" in told[-2]
    assert "rank 1 of 2" in told[-1]
    assert all("srun --ntasks-per-node=2" in line for line in told[-2:])


def test_the_batch_script_of_the_documentation_checks_and_trains(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = "DDPCHECK_PROFILE=quick,DDPCHECK_SELECT=launch,DDPCHECK_STRATEGY=zero1"
    settings += ",DDPCHECK_STEPS=12,DDPCHECK_GLOBAL_BATCH=8"
    lines = EXAMPLE.read_text().splitlines()
    ended = cluster.batch(tmp_path / "reports", ["--export", f"ALL,PATH={path},{settings}"], *lines)
    assert ended.exit_code == 0, ended.stderr
    run = ended.report.run
    assert (run.launcher, list(run.hosts)) == ("slurm", ["host0", "host1"])
    assert_trained(ended.report, "zero1")
    assert ended.stdout.count("training: loss") == 1


def test_one_torchrun_a_node_trains(cluster: Cluster, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    check = ddpcheck(reports, "--select", "launch")
    train = ["-m", "ddpcheck", "train", "--from", str(reports / "latest"), *SHORT_TRAINING]
    launcher = " ".join(torchrun(nodes=2))
    lines = [f"srun {launcher} {' '.join(words)}" for words in (check, train)]
    options = ["--nodes=2", "--ntasks-per-node=1"]
    ended = cluster.batch(reports, options, " && ".join(lines))
    assert ended.exit_code == 0, ended.stderr
    assert_trained(ended.report, "ddp")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("launcher", "known_as", "nodes", "local"),
    [
        # Open MPI starts its daemons on all nodes but its own, Hydra on all.
        pytest.param((OPENMPI, *OPENMPI_OPTIONS), "openmpi", 3, 1, id="Open MPI"),
        pytest.param((HYDRA, *HYDRA_OPTIONS), "pmi", 2, 2, id="MPICH"),
    ],
)
def test_ranks_of_an_mpirun_in_an_allocation_are_no_tasks_of_srun(
    launcher: tuple[str, ...], known_as: str, nodes: int, local: int, tmp_path: Path
) -> None:
    require(launcher[0])
    reports = tmp_path / "reports"
    world = local * nodes
    with made_cluster(nodes) as cluster:
        command = [*launcher, "-n", str(world), *python(*ddpcheck(reports))]
        place = f"export MASTER_ADDR={cluster.hosts[0].name}"
        options = [f"--nodes={nodes}", f"--ntasks-per-node={local}"]
        ended = cluster.batch(reports, options, place, " ".join(command))
        names = [host.name for host in cluster.hosts for _ in range(local)]
    assert ended.exit_code == 0, ended.stderr
    report = ended.report
    assert (report.verdict, ended.found()) == (Verdict.PASS, {})
    assert report.run.launcher == known_as
    assert (report.run.requested_world_size, report.run.world_size) == (world, world)
    assert [each.host for each in report.ranks] == names


@pytest.mark.thorough
def test_ranks_that_a_script_starts_in_one_task_a_node_have_its_variables_too(
    cluster: Cluster, tmp_path: Path
) -> None:
    reports, script = tmp_path / "reports", tmp_path / "spawn.py"
    script.write_text(SPAWN)
    srun = ("srun", "--nodes=2", "--ntasks-per-node=1")
    ended = cluster.run(reports, *srun, *python(str(script), *ddpcheck(reports)))
    assert ended.exit_code == 0, ended.stderr
    report = ended.report
    assert (report.verdict, ended.found(), report.run.world_size) == (Verdict.PASS, {}, 4)
    assert [each.host for each in report.ranks] == ["host0", "host0", "host1", "host1"]


def require(program: str) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program}: .ci/launchers installs it")


def torchrun(nodes: int) -> list[str]:
    """Return a torchrun with one rank, of a job with so many of them."""
    meeting = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"host0:{PORT}", "--rdzv-id", "job")
    launcher = ("-m", "torch.distributed.run", "--nnodes", str(nodes), "--nproc-per-node", "1")
    return python(*launcher, *meeting)
