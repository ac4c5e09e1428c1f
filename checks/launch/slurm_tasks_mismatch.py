"""Slurm starts other tasks than the job has ranks.

Why it matters
    With fewer tasks than WORLD_SIZE the job waits for ranks that nobody starts; with fewer than
    GPUs some idle; with a torchrun in each of many tasks a node gets a multiple of its ranks.
What to do
    Start one task a rank (srun --nodes=N --ntasks-per-node=GPUS), or one a node when each runs
    torchrun (--ntasks-per-node=1). What sbatch was told is srun's default.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.launch.claims import is_below_mpis_daemon
from ddpcheck.measures.slurm import is_task_of_srun, tasks_on_nodes
from ddpcheck.measures.words import listed

# Source: srun's manual, "OUTPUT ENVIRONMENT VARIABLES". SLURM_NTASKS_PER_NODE is a request, which
# a task inherits from sbatch; what starts with SLURM_STEP is what srun did.
READ = (
    *("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"),
    *("SLURM_STEP_NUM_NODES", "SLURM_NTASKS_PER_NODE", "SLURM_GPUS_ON_NODE"),
)
AGENTS = {"TORCHELASTIC_RUN_ID": "torchrun", "DDPCHECK_LAUNCHED": "ddpcheck"}
ONE_A_RANK = "start as many tasks as ranks: srun --nodes=N --ntasks-per-node=GPUS, without --ntasks"
ONE_A_NODE = "start torchrun once a node: srun --ntasks-per-node=1 torchrun --nproc-per-node=GPUS"


class Facts(msgspec.Struct, frozen=True):
    """What Slurm says of a rank's task, the GPUs it sees, and the agent that started it, if any."""

    host: str
    step: str
    numbers: dict[str, int]
    tasks_on_nodes: tuple[int, ...]
    gpus: int
    agent: str = ""

    @property
    def tasks(self) -> int:
        """Return how many tasks the step has."""
        return self.numbers.get("SLURM_STEP_NUM_TASKS", sum(self.tasks_on_nodes))

    @property
    def nodes(self) -> int:
        """Return on how many nodes the step runs."""
        return self.numbers.get("SLURM_STEP_NUM_NODES", len(self.tasks_on_nodes))


def probe(ctx: Context) -> Facts:
    """Return what srun told the task that this rank is, or that an agent started it in."""
    environ = ctx.environ
    if not is_task_of_srun(environ):
        raise Skip("srun did not start this process")
    if environ.get("SLURM_HET_SIZE", "1") != "1":
        raise Skip("the tasks of a heterogeneous job are counted for each of its components")
    if "RAY_JOB_ID" in environ or is_below_mpis_daemon(environ):
        raise Skip("srun started a daemon of Ray or mpirun, and that this process")
    told = {name: environ.get(name, "").strip() for name in READ}
    return Facts(
        host=ctx.host,
        step=f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}",
        numbers={name: int(text) for name, text in told.items() if text.isdecimal()},
        tasks_on_nodes=tuple(tasks_on_nodes(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))),
        gpus=ctx.gpus if ctx.on_gpu else 0,
        agent=next((agent for name, agent in AGENTS.items() if name in environ), ""),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return where srun's tasks, what was asked for, and the ranks contradict each other."""
    if agents := {rank: own for rank, own in facts.items() if own.agent}:
        lone = {rank: own for rank, own in agents.items() if own.agent == "ddpcheck"}
        return list(_agents(agents)) or list(_fewer_than_asked(lone))
    # A task may start ranks of its own, as DeepSpeed's launcher does: then tasks say nothing.
    ids = [own.numbers.get("SLURM_PROCID", 0) for own in facts.values()]
    claimed = all(o.numbers.get("RANK", i) == i for i, o in zip(ids, facts.values(), strict=True))
    alone = min(own.tasks for own in facts.values()) <= 1
    if len({own.step for own in facts.values()}) > 1 or not (alone or claimed):
        return []
    return ([] if alone else [*_uneven(facts), *_world(facts)]) or list(_fewer_than_asked(facts))


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many tasks on how many nodes."""
    own = next(iter(facts.values()))
    inside = f", {own.agent} inside" * bool(own.agent)
    return f"{own.tasks} task(s) of srun on {own.nodes} node(s){inside}"


def _agents(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    places = {(own.host, own.numbers.get("SLURM_PROCID")) for own in facts.values()}
    hosts = Counter(host for host, _ in places)
    if crowded := sorted(host for host, tasks in hosts.items() if tasks > 1):
        told = f"several tasks of srun run torchrun on {listed(crowded)}, "
        told += f"and each starts ranks there: {len(facts)} in all"
        ranks = [rank for rank, own in facts.items() if own.host in crowded]
        yield _finding(ranks, "several torchruns on a node", told, ONE_A_NODE, Severity.WARNING)


def _world(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    sizes = {rank: own.numbers.get("WORLD_SIZE", own.tasks) for rank, own in facts.items()}
    for world in sorted(set(sizes.values())):
        ranks = [rank for rank in facts if sizes[rank] == world]
        own = facts[ranks[0]]
        told = f"srun started {own.tasks} tasks on {own.nodes} node(s), and WORLD_SIZE is {world}"
        if world > own.tasks:
            yield _finding(ranks, "fewer tasks than ranks", told, ONE_A_RANK, Severity.ERROR)
        elif 1 < world < own.tasks:  # with a world of 1, each task may be a training of its own
            yield _finding(ranks, "more tasks than ranks", told, ONE_A_RANK, Severity.WARNING)


def _uneven(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    hosts = Counter(own.host for own in facts.values())
    given = {own.host: own.numbers.get("SLURM_GPUS_ON_NODE", 0) for own in facts.values()}
    seen = {own.host: own.gpus for own in facts.values()}
    few = [h for h, gpus in given.items() if 0 < gpus < hosts[h] and seen[h]]
    idle = [h for h, gpus in given.items() if hosts[h] < min(gpus, seen[h])]  # a task sees its own
    for bad, title in ((few, "more tasks than GPUs"), (idle, "fewer tasks than GPUs")):
        if ranks := [rank for rank, own in facts.items() if own.host in bad]:
            told = f"{hosts[bad[0]]} tasks on {bad[0]}, and Slurm gave it {given[bad[0]]} GPU(s)"
            told += f"; the same on {len(bad) - 1} other host(s)" * (len(bad) > 1)
            yield _finding(ranks, title, told, ONE_A_RANK, Severity.WARNING)


def _fewer_than_asked(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    own = next(iter(facts.values()), None)
    asked = own.numbers.get("SLURM_NTASKS_PER_NODE", 0) if own else 0
    if own and asked and own.tasks_on_nodes and set(own.tasks_on_nodes) != {asked}:
        told = f"SLURM_NTASKS_PER_NODE is {asked}, and the step has {own.tasks} tasks: "
        told += f"{listed(own.tasks_on_nodes)} on its nodes"
        # It may be meant, unless GPUs idle, or there is no torchrun to start the ranks.
        idle = any(o.gpus > max(o.tasks_on_nodes, default=0) for o in facts.values() if o.tasks > 1)
        gravity = Severity.WARNING if idle or own.agent else Severity.INFO
        yield _finding(list(facts), "tasks a node not as asked for", told, ONE_A_RANK, gravity)


def _finding(ranks: Sequence[int], title: str, told: str, fix: str, gravity: Severity) -> Finding:
    return Finding(
        title=title,
        message=told,
        fix=fix,
        ranks=tuple(sorted(ranks)),
        severity=gravity,
        confidence=Confidence.HIGH if gravity is Severity.ERROR else Confidence.MEDIUM,
    )
