"""What launchers set in the environment of a process that they start as one rank of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec


class Names(msgspec.Struct, frozen=True):
    """The variables of one launcher; several names stand in the order in which they count."""

    rank: str
    world_size: tuple[str, ...]
    local_rank: tuple[str, ...]
    local_world_size: tuple[str, ...] = ()


class Claim(msgspec.Struct, frozen=True):
    """What one launcher says of a process, as texts; '' is what it does not say."""

    launcher: str
    rank: str
    world_size: str
    local_rank: str = ""
    local_world_size: str = ""


TORCH = "environment"
ALONE = ("", "1")
# Sources: torch/distributed/rendezvous.py; srun's manual, "OUTPUT ENVIRONMENT VARIABLES"; Open MPI's
# documentation, "Environment variables defined by mpirun"; MPICH's and Intel MPI's Hydra, PALS and
# MVAPICH2's user guides. The first that is there is taken: torch's own variables win, and so do
# Slurm's where they agree with those of MPI, which srun sets for an MPI program too.
LAUNCHERS = {
    # DeepSpeed's launcher calls the last one LOCAL_SIZE.
    TORCH: Names("RANK", ("WORLD_SIZE",), ("LOCAL_RANK",), ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),
    # SLURM_NTASKS alone does not tell: it is set in a batch script too, which is no task of a step.
    "slurm": Names("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS",), ("SLURM_LOCALID",)),
    "openmpi": Names(
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        ("OMPI_COMM_WORLD_LOCAL_RANK",),
        ("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    "mvapich": Names(
        "MV2_COMM_WORLD_RANK",
        ("MV2_COMM_WORLD_SIZE",),
        ("MV2_COMM_WORLD_LOCAL_RANK",),
        ("MV2_COMM_WORLD_LOCAL_SIZE",),
    ),
    "pmi": Names(
        "PMI_RANK",
        ("PMI_SIZE",),
        ("MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"),
        ("MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"),
    ),
}
# Who starts ranks with torch's variables tells by others that it sets besides.
# Sources: accelerate/utils/launch.py, deepspeed/launcher/launch.py, Ray's worker processes,
# Kubeflow trainer's pytorch plug-in.
ON_TORCHS_NAMES = (
    ("ddpcheck", "DDPCHECK_LAUNCHED"),
    ("accelerate", "ACCELERATE_MIXED_PRECISION"),
    ("torchrun", "TORCHELASTIC_RUN_ID"),
    ("deepspeed", "CROSS_SIZE"),
    ("ray", "RAY_JOB_ID"),
    ("pytorchjob", "PET_NNODES"),
)
# What starts ranks of its own in each task of srun: they inherit the variables of that task.
NESTED = ("DDPCHECK_LAUNCHED", "TORCHELASTIC_RUN_ID", "CROSS_SIZE", "RAY_JOB_ID")


def claims(environ: Mapping[str, str]) -> list[Claim]:
    """Return what each launcher says that made this process one of several ranks, first come first.

    A process that is alone in its Slurm step, or under its mpirun, is no rank: it may be a shell,
    or a launcher in its turn. Nor is one of torchrun's workers a rank of what started torchrun.
    """
    return list(_claims(environ))


def is_below_mpis_daemon(environ: Mapping[str, str]) -> bool:
    """Return whether Slurm's variables are those of a daemon that mpirun put on this node.

    Inside an allocation mpirun starts its daemons with srun, one a node, and they the ranks: each
    rank has the SLURM_PROCID of its daemon, and finds the number of daemons for that of tasks.
    Source: PRRTE's plm/slurm, Hydra's bootstrap server "slurm".
    """
    slurm = _claim("slurm", LAUNCHERS["slurm"], environ)
    mpi = [_claim(each, LAUNCHERS[each], environ) for each in ("openmpi", "mvapich", "pmi")]
    several = [each for each in mpi if each.rank and each.world_size not in ALONE]
    step = (slurm.rank, slurm.world_size)
    return bool(slurm.rank) and any((each.rank, each.world_size) != step for each in several)


def _claims(environ: Mapping[str, str]) -> Iterator[Claim]:
    if environ.get("RANK") or environ.get("LOCAL_RANK"):
        yield _claim(_on_torchs_names(environ), LAUNCHERS[TORCH], environ)
        if any(name in environ for name in NESTED):
            return
    inherited = {TORCH, "slurm"} if is_below_mpis_daemon(environ) else {TORCH}
    for launcher, names in LAUNCHERS.items():
        claim = _claim(launcher, names, environ)
        if launcher not in inherited and claim.rank and claim.world_size not in ALONE:
            yield claim


def _claim(launcher: str, names: Names, environ: Mapping[str, str]) -> Claim:
    def first(wanted: tuple[str, ...]) -> str:
        return next((environ[name].strip() for name in wanted if environ.get(name)), "")

    return Claim(
        launcher,
        first((names.rank,)),
        first(names.world_size),
        first(names.local_rank),
        first(names.local_world_size),
    )


def _on_torchs_names(environ: Mapping[str, str]) -> str:
    return next((launcher for launcher, name in ON_TORCHS_NAMES if name in environ), TORCH)
