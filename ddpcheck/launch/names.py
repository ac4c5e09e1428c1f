"""torch's own variables for a rank whose launcher uses other names."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from ddpcheck.launch.claims import Claim, claims
from ddpcheck.machine.files import text_of
from ddpcheck.measures.slurm import hosts_of, tasks_on_nodes

LOOPBACK = "127.0.0.1"
# What tells two jobs on one host apart, so that each meets at a port of its own.
STEP = ("SLURM_JOB_ID", "SLURM_STEP_ID")
# Below mpirun the step is that of its daemons, and the ranks on its own node have none.
JOBS = (("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("PMI_JOBID",), STEP[:1])
# Ports for the meeting: above those of services, below those that Linux gives out by itself
# (net.ipv4.ip_local_port_range begins at 32768).
FIRST_PORT, PORTS = 16384, 16384
DEFAULT_PORT = 29500  # torchrun's


def in_torchs_names(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that torch reads, for a rank of Slurm or MPI; those it has stay.

    Returns nothing where a launcher has set torch's names, and no MASTER_ADDR where nobody says
    on which host rank 0 is.
    """
    claim = next(iter(claims(environ)), None)
    if claim is None or environ.get("RANK") or environ.get("LOCAL_RANK"):
        return {}
    by_slurm = claim.launcher == "slurm"
    local_size = claim.local_world_size or (_slurms_local_size(environ) if by_slurm else "")
    told = {
        "RANK": claim.rank,
        "WORLD_SIZE": claim.world_size,
        "LOCAL_RANK": claim.local_rank,
        "LOCAL_WORLD_SIZE": local_size,
        "MASTER_ADDR": _address(claim, local_size, environ),
        "MASTER_PORT": str(_port(environ, (STEP,) if by_slurm else JOBS)),
    }
    return {name: environ.get(name) or value for name, value in told.items() if value}


def _slurms_local_size(environ: Mapping[str, str]) -> str:
    node = environ.get("SLURM_NODEID", "")
    tasks = tasks_on_nodes(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return str(tasks[int(node)]) if node.isdecimal() and int(node) < len(tasks) else ""


def _address(claim: Claim, local_size: str, environ: Mapping[str, str]) -> str:
    if local_size == claim.world_size:
        return LOOPBACK
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST", "")
    if claim.launcher != "slurm" or not nodes:
        return ""
    # Lists of nodes are sorted: a distribution of one's own may begin elsewhere.
    if environ.get("SLURM_DISTRIBUTION", "").startswith("arbitrary"):
        nodes = _first_entry(text_of(Path(environ.get("SLURM_HOSTFILE", ""))))
    return next(iter(hosts_of(nodes)), "")


def _first_entry(hostfile: str) -> str:
    """Return the host of the first task; a line is a host, times a number of tasks, and a remark."""
    lines = (re.split(r"[#*]", line)[0].strip() for line in hostfile.splitlines())
    return next((line for line in lines if line), "")


def _port(environ: Mapping[str, str], jobs: Sequence[tuple[str, ...]]) -> int:
    for names in jobs:
        job = ".".join(environ.get(name, "") for name in names)
        if environ.get(names[0]):
            return FIRST_PORT + zlib.crc32(job.encode()) % PORTS
    return DEFAULT_PORT
