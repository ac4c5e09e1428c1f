"""What each launcher sets, from what real ones do, and who counts as a rank of it."""

import pytest

from ddpcheck.launch.claims import Claim, claims, is_below_mpis_daemon
from ddpcheck.launch.identity import identity, started_by_launcher

TORCH = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
PLACE = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
SLURM_JOB = {"SLURM_JOB_ID": "17", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_NTASKS": "4"}
SLURM_TASK = SLURM_JOB | {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_STEP_NODELIST": "node[1-2]",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "1234567",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
# What a daemon of mpirun on the second of four nodes hands on: it is task 0 of three.
DAEMON = SLURM_JOB | {
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_STEP_NODELIST": "node[2-4]",
}


@pytest.mark.parametrize(
    ("more", "launcher"),
    [
        ({}, "environment"),
        ({"TORCHELASTIC_RUN_ID": "none"}, "torchrun"),
        ({"DDPCHECK_LAUNCHED": "1"}, "ddpcheck"),
        ({"ACCELERATE_MIXED_PRECISION": "no", "TORCHELASTIC_RUN_ID": "none"}, "accelerate"),
        ({"CROSS_SIZE": "1", "CROSS_RANK": "0", "LOCAL_SIZE": "4"}, "deepspeed"),
        ({"RAY_JOB_ID": "01000000"}, "ray"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "pytorchjob"),
    ],
)
def test_who_sets_torchs_names_is_known_by_what_it_sets_besides(
    more: dict[str, str], launcher: str
) -> None:
    assert claims(TORCH | more) == [Claim(launcher, "1", "4", "1", "2")]
    assert identity(TORCH | PLACE | more).launcher == launcher


@pytest.mark.parametrize(
    ("environ", "claim"),
    [
        (SLURM_TASK, Claim("slurm", "1", "4", "1")),
        (OPENMPI, Claim("openmpi", "1", "2", "1", "2")),
        (HYDRA, Claim("pmi", "1", "2", "1", "2")),
    ],
)
def test_other_launchers_are_known_by_their_own_names(
    environ: dict[str, str], claim: Claim
) -> None:
    assert claims(environ) == [claim]
    assert started_by_launcher(environ)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="a plain shell"),
        pytest.param(SLURM_JOB | {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, id="a batch script"),
        pytest.param(SLURM_TASK | {"SLURM_STEP_NUM_TASKS": "1"}, id="srun --pty bash"),
        pytest.param(OPENMPI | {"OMPI_COMM_WORLD_SIZE": "1"}, id="mpirun -n 1"),
        pytest.param({"PMI_RANK": "0"}, id="a rank of no size"),
    ],
)
def test_who_is_alone_is_no_rank(environ: dict[str, str]) -> None:
    assert claims(environ) == []
    assert not started_by_launcher(environ)


@pytest.mark.parametrize(
    "name", ["TORCHELASTIC_RUN_ID", "DDPCHECK_LAUNCHED", "CROSS_SIZE", "RAY_JOB_ID"]
)
def test_a_worker_of_torchrun_is_no_rank_of_what_started_torchrun(name: str) -> None:
    assert len(claims(SLURM_TASK | TORCH | {name: "1"})) == 1


@pytest.mark.parametrize("mpi", [OPENMPI, HYDRA])
def test_a_rank_of_mpirun_is_no_task_of_the_srun_that_started_its_daemon(
    mpi: dict[str, str],
) -> None:
    environ = DAEMON | mpi
    assert claims(environ) == claims(mpi)
    assert is_below_mpis_daemon(environ)
    assert identity(environ | PLACE).rank == 1
    # As a rank, with torch's names beside it.
    assert [each.launcher for each in claims(environ | TORCH)][1:] == [claims(mpi)[0].launcher]


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param(SLURM_TASK | {"PMI_RANK": "1", "PMI_SIZE": "4"}, id="srun --mpi=pmi2"),
        pytest.param(SLURM_TASK | {"PMI_RANK": "0", "PMI_SIZE": "1"}, id="a leftover of one rank"),
    ],
)
def test_a_task_of_srun_is_one_of_an_mpi_program_too(environ: dict[str, str]) -> None:
    assert claims(environ)[0] == Claim("slurm", "1", "4", "1")
    assert not is_below_mpis_daemon(environ)


def test_two_launchers_both_have_their_say() -> None:
    assert [each.launcher for each in claims(SLURM_TASK | TORCH)] == ["environment", "slurm"]
