import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.launch.slurm_tasks_mismatch import probe

STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "9",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NUM_TASKS": "16",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "8(x2)",
    "WORLD_SIZE": "16",
    "RANK": "",
}


def test_probe_reads_what_srun_told() -> None:
    facts = probe(context_with(environ=STEP))
    assert (facts.step, facts.tasks, facts.nodes, facts.tasks_on_nodes) == ("4711.0", 16, 2, (8, 8))
    assert (facts.agent, facts.gpus) == ("", 0)
    assert facts.numbers["SLURM_PROCID"] == 9
    assert "RANK" not in facts.numbers


@pytest.mark.parametrize(
    ("name", "agent"), [("TORCHELASTIC_RUN_ID", "torchrun"), ("DDPCHECK_LAUNCHED", "ddpcheck")]
)
def test_probe_sees_the_agent(name: str, agent: str) -> None:
    assert probe(context_with(environ=STEP | {name: "x"})).agent == agent


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no Slurm"),
        pytest.param({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, id="a batch script"),
        pytest.param(STEP | {"SLURM_STEP_ID": "4294967290"}, id="an interactive shell"),
        pytest.param(STEP | {"SLURM_HET_SIZE": "2"}, id="a heterogeneous job"),
        pytest.param(STEP | {"RAY_JOB_ID": "01000000"}, id="a worker of Ray"),
        pytest.param(
            STEP | {"OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_SIZE": "24"},
            id="a rank of mpirun below its daemon",
        ),
    ],
)
def test_what_is_no_task_is_skipped(environ: dict[str, str]) -> None:
    with pytest.raises(Skip):
        probe(context_with(environ=environ))
