import msgspec
import pytest

from ddpcheck.checks.launch.slurm_tasks_mismatch import Facts, judge, summarize
from ddpcheck.finding import Finding, Severity


def task(rank: int, local: int = 8, nodes: int = 2, **changed: object) -> Facts:
    """Return a rank that is a task of a step with ``local`` tasks on each of ``nodes``."""
    own = Facts(
        host=f"node{rank // local}",
        step="4711.0",
        numbers={
            "RANK": rank,
            "WORLD_SIZE": local * nodes,
            "SLURM_PROCID": rank,
            "SLURM_LOCALID": rank % local,
            "SLURM_STEP_NUM_TASKS": local * nodes,
            "SLURM_STEP_NUM_NODES": nodes,
            "SLURM_NTASKS_PER_NODE": local,
            "SLURM_GPUS_ON_NODE": local,
        },
        tasks_on_nodes=(local,) * nodes,
        gpus=local,
    )
    return msgspec.structs.replace(own, **changed)


def job(local: int = 8, nodes: int = 2, **numbers: int) -> dict[int, Facts]:
    own = {rank: task(rank, local, nodes) for rank in range(local * nodes)}
    return {r: msgspec.structs.replace(o, numbers=o.numbers | numbers) for r, o in own.items()}


def with_agents(tasks_a_node: int, ranks_a_task: int = 4, nodes: int = 2) -> dict[int, Facts]:
    """Return the ranks of a torchrun in every task."""
    world = tasks_a_node * ranks_a_task * nodes
    started = {rank: task(rank // ranks_a_task, tasks_a_node, nodes) for rank in range(world)}
    return {r: msgspec.structs.replace(own, agent="torchrun") for r, own in started.items()}


def only(facts: dict[int, Facts]) -> Finding:
    (finding,) = judge(facts)
    return finding


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(job(), id="one task a rank"),
        pytest.param(job(nodes=128), id="1024 ranks"),
        pytest.param(with_agents(1), id="one torchrun a node"),
        pytest.param({0: task(0, 1, 1)}, id="alone in its step"),
        pytest.param({0: task(0, 1, 1, numbers={"WORLD_SIZE": 8})}, id="one srun for each rank"),
        pytest.param(
            {r: task(0, 1, 2, numbers={"RANK": r, "SLURM_PROCID": 0}) for r in range(4)},
            id="a task that starts ranks of its own",
        ),
        pytest.param({0: task(0, numbers={"WORLD_SIZE": 1, "SLURM_PROCID": 0})}, id="a sweep"),
        pytest.param({r: task(r, step=f"1.{r}") for r in range(2)}, id="several steps"),
        pytest.param(
            {r: task(r, 2, 1, numbers={"SLURM_PROCID": r}, gpus=0) for r in range(2)},
            id="on CPUs, nothing asked for",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_ranks_that_nobody_starts() -> None:
    found = only(job(nodes=1, WORLD_SIZE=16))
    assert (found.severity, found.ranks) == (Severity.ERROR, tuple(range(8)))
    assert "8 tasks on 1 node" in found.message
    assert "WORLD_SIZE is 16" in found.message
    assert "srun --nodes=N --ntasks-per-node" in found.fix


def test_tasks_without_a_rank() -> None:
    found = only({r: own for r, own in job(WORLD_SIZE=8).items() if r < 8})
    assert (found.severity, found.ranks) == (Severity.WARNING, tuple(range(8)))


def test_several_torchruns_on_a_node() -> None:
    found = only(with_agents(4))
    assert (found.severity, found.ranks) == (Severity.WARNING, tuple(range(32)))
    assert "node0, node1" in found.message
    assert "--ntasks-per-node=1" in found.fix


def test_more_tasks_than_gpus() -> None:
    found = only(job(SLURM_GPUS_ON_NODE=4))
    assert (found.severity, found.ranks) == (Severity.WARNING, tuple(range(16)))
    assert "8 tasks on node0, and Slurm gave it 4 GPU(s)" in found.message
    assert "1 other host" in found.message


def test_gpus_that_idle() -> None:
    # srun --ntasks-per-node=1 python -m ddpcheck run, on nodes of which the job has 8 GPUs each.
    facts = job(local=1, SLURM_GPUS_ON_NODE=8)
    found = only({r: msgspec.structs.replace(own, gpus=8) for r, own in facts.items()})
    assert (found.severity, found.ranks) == (Severity.WARNING, (0, 1))
    assert (found.title, "1 tasks on node0" in found.message) == ("fewer tasks than GPUs", True)
    assert "Slurm gave it 8 GPU(s)" in found.message


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        pytest.param(8, 1, id="each task is shown one"),
        pytest.param(1, 8, id="the job was given no more"),
        pytest.param(8, 0, id="a run on CPUs"),
    ],
)
def test_gpus_that_are_not_the_tasks_own_do_not_idle(given: int, seen: int) -> None:
    facts = job(local=1, SLURM_GPUS_ON_NODE=given)
    assert judge({r: msgspec.structs.replace(own, gpus=seen) for r, own in facts.items()}) == []


def test_more_tasks_than_gpus_is_nothing_on_cpus() -> None:
    facts = job(SLURM_GPUS_ON_NODE=4)
    assert judge({r: msgspec.structs.replace(own, gpus=0) for r, own in facts.items()}) == []


@pytest.mark.parametrize(("gpus", "severity"), [(8, Severity.WARNING), (4, Severity.INFO)])
def test_fewer_tasks_than_asked_matter_when_gpus_idle(gpus: int, severity: Severity) -> None:
    facts = job(local=4, SLURM_NTASKS_PER_NODE=8)
    found = only({r: msgspec.structs.replace(own, gpus=gpus) for r, own in facts.items()})
    assert (found.severity, found.ranks) == (severity, tuple(range(8)))
    assert "SLURM_NTASKS_PER_NODE is 8" in found.message


def test_summary() -> None:
    assert summarize(job()) == "16 task(s) of srun on 2 node(s)"
    assert summarize(with_agents(1)) == "2 task(s) of srun on 2 node(s), torchrun inside"


def one_task(agent: str) -> dict[int, Facts]:
    """Return two ranks in the one task of --ntasks=1 beside --ntasks-per-node=2."""
    numbers = {"SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 1, "SLURM_NTASKS_PER_NODE": 2}
    numbered = {r: numbers | {"RANK": r} for r in range(2)}
    return {r: task(0, 1, 1, numbers=own, gpus=2, agent=agent) for r, own in numbered.items()}


@pytest.mark.parametrize(
    ("agent", "severity"), [("", Severity.INFO), ("ddpcheck", Severity.WARNING)]
)
def test_one_task_where_more_a_node_were_asked_for(agent: str, severity: Severity) -> None:
    found = only(one_task(agent))
    assert (found.severity, found.ranks) == (severity, (0, 1))
    assert "SLURM_NTASKS_PER_NODE is 2, and the step has 1 tasks" in found.message
    assert "--ntasks-per-node=GPUS, without --ntasks" in found.fix


def test_torchrun_in_one_task_may_take_its_ranks_from_there() -> None:
    assert judge(one_task("torchrun")) == []
