"""torch's variables, for a rank whose launcher has names of its own."""

from pathlib import Path

import pytest
from test_claims import DAEMON, HYDRA, OPENMPI, PLACE, SLURM_JOB, SLURM_TASK, TORCH

from ddpcheck.errors import UsageError
from ddpcheck.launch.identity import identity
from ddpcheck.launch.names import FIRST_PORT, PORTS, in_torchs_names


def test_slurms_ranks_meet_on_their_first_node() -> None:
    told = in_torchs_names(SLURM_TASK)
    port = int(told.pop("MASTER_PORT"))
    assert FIRST_PORT <= port < FIRST_PORT + PORTS
    assert told == TORCH | {"MASTER_ADDR": "node1"}
    who = identity(SLURM_TASK)
    assert (who.rank, who.world_size, who.local_rank, who.launcher) == (1, 4, 1, "slurm")
    assert (who.master_addr, who.master_port) == ("node1", port)


def test_each_job_and_each_step_has_a_port_of_its_own() -> None:
    jobs = [SLURM_TASK, SLURM_TASK | {"SLURM_JOB_ID": "18"}, SLURM_TASK | {"SLURM_STEP_ID": "1"}]
    assert len({in_torchs_names(job)["MASTER_PORT"] for job in jobs}) == len(jobs)


def test_all_ranks_of_a_step_are_told_the_same_place() -> None:
    other = SLURM_TASK | {"SLURM_PROCID": "3", "SLURM_NODEID": "1", "SLURM_LOCALID": "1"}
    one, two = in_torchs_names(SLURM_TASK), in_torchs_names(other)
    assert (one["MASTER_ADDR"], one["MASTER_PORT"]) == (two["MASTER_ADDR"], two["MASTER_PORT"])


@pytest.mark.parametrize("mpi", [OPENMPI, HYDRA])
def test_ranks_of_mpirun_in_an_allocation_meet_at_one_port(mpi: dict[str, str]) -> None:
    # Those on mpirun's own node are in no step of srun, and the others in that of its daemons.
    of_four = mpi | {name: "4" for name in mpi if name.endswith("_SIZE") and "LOCAL" not in name}
    beside, remote = in_torchs_names(SLURM_JOB | of_four), in_torchs_names(DAEMON | of_four)
    assert beside == remote
    assert (remote["RANK"], remote["WORLD_SIZE"], remote["LOCAL_WORLD_SIZE"]) == ("1", "4", "2")


def test_a_list_of_nodes_that_cannot_be_read_names_no_address() -> None:
    assert "MASTER_ADDR" not in in_torchs_names(SLURM_TASK | {"SLURM_STEP_NODELIST": "node[1-"})


@pytest.mark.parametrize("environ", [OPENMPI, HYDRA])
def test_ranks_of_one_host_meet_at_home(environ: dict[str, str]) -> None:
    told = in_torchs_names(environ)
    assert (told["MASTER_ADDR"], told["RANK"], told["WORLD_SIZE"]) == ("127.0.0.1", "1", "2")


@pytest.mark.parametrize("environ", [SLURM_TASK, OPENMPI, HYDRA])
def test_a_place_that_is_set_is_kept(environ: dict[str, str]) -> None:
    told = in_torchs_names(environ | PLACE)
    assert {name: told[name] for name in PLACE} == PLACE


def test_where_mpi_on_several_hosts_meets_is_to_be_told() -> None:
    environ = OPENMPI | {"OMPI_COMM_WORLD_SIZE": "4"}
    assert "MASTER_ADDR" not in in_torchs_names(environ)
    with pytest.raises(UsageError, match="mpirun -x MASTER_ADDR=HOST"):
        identity(environ)


@pytest.mark.parametrize("environ", [{}, TORCH, TORCH | PLACE, SLURM_TASK | TORCH])
def test_what_a_launcher_set_in_torchs_names_stays(environ: dict[str, str]) -> None:
    assert in_torchs_names(environ) == {}


def test_a_size_that_is_exported_alone_is_kept_for_the_checks_to_see() -> None:
    assert in_torchs_names(SLURM_TASK | {"WORLD_SIZE": "3"})["WORLD_SIZE"] == "3"


def test_the_advice_is_about_what_is_missing() -> None:
    environ = SLURM_TASK | TORCH | {"MASTER_ADDR": "node1"}
    with pytest.raises(UsageError, match="MASTER_PORT is not: start the ranks with torchrun"):
        identity(environ)


def arbitrary(tmp_path: Path, hostfile: str) -> dict[str, str]:
    """Return what a real srun --distribution=arbitrary sets: its lists of nodes are sorted."""
    (tmp_path / "order").write_text(hostfile)
    order = {"SLURM_DISTRIBUTION": "arbitrary", "SLURM_HOSTFILE": str(tmp_path / "order")}
    return SLURM_TASK | order


@pytest.mark.parametrize(
    "hostfile",
    ["node2\nnode1\nnode2\nnode1\n", "# mine\n\nnode2*2  # the fast one\nnode1*2\n", "node[2,1]"],
)
def test_ranks_in_an_order_of_ones_own_meet_where_it_begins(hostfile: str, tmp_path: Path) -> None:
    assert in_torchs_names(arbitrary(tmp_path, hostfile))["MASTER_ADDR"] == "node2"


def test_an_order_that_cannot_be_read_is_not_guessed(tmp_path: Path) -> None:
    environ = arbitrary(tmp_path, "")
    assert "MASTER_ADDR" not in in_torchs_names(environ)
    with pytest.raises(UsageError, match="set MASTER_ADDR to that host"):
        identity(environ)


def test_an_order_that_slurm_chose_begins_at_the_first_node(tmp_path: Path) -> None:
    environ = arbitrary(tmp_path, "node2\nnode1\n") | {"SLURM_DISTRIBUTION": "cyclic"}
    assert in_torchs_names(environ)["MASTER_ADDR"] == "node1"
