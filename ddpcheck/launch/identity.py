"""Who this process is, from what its launcher set in the environment."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from ddpcheck.errors import UsageError
from ddpcheck.launch.claims import LAUNCHERS, NESTED, TORCH, claims
from ddpcheck.launch.names import in_torchs_names
from ddpcheck.network.reach import resolved

HIGHEST_PORT = 65535
# A name server that works answers in far less; one that does not is told of where it matters.
LOOKUP_S = 2.0
ANY_PORT = 1


@dataclass(frozen=True)
class Identity:
    """What a process takes itself for; ``rank`` is the global rank."""

    rank: int
    local_rank: int
    world_size: int
    host: str
    master_addr: str
    master_port: int
    launcher: str
    store_is_hosted: bool
    attempt: str

    @property
    def may_host_store(self) -> bool:
        """Return whether this process may open the store that nobody else hosts.

        Whoever comes first on MASTER_ADDR's machine does, not just rank 0: so ranks can
        meet, and tell, even when RANK is wrong.
        """
        return not self.store_is_hosted and (self.rank == 0 or self.is_on_master)

    @property
    def is_on_master(self) -> bool:
        """Return whether MASTER_ADDR is an address of this host."""
        return is_this_host(self.master_addr)


def started_by_launcher(environ: Mapping[str, str]) -> bool:
    """Return whether a launcher has made this process one rank of a job."""
    return "RANK" in environ or "LOCAL_RANK" in environ or bool(claims(environ))


def require_whole_job(environ: Mapping[str, str]) -> None:
    """Raise UsageError in a pod of Kubeflow's whose variables are for a torchrun that nobody started.

    A pod that checked itself alone would pass for the job; one rank in a pod that is to have several
    would wait for the others.
    """
    pods = environ.get("PET_NNODES", "1").rpartition(":")[2]
    if pods != "1" and not started_by_launcher(environ):
        raise UsageError(
            f"PET_NNODES is {environ['PET_NNODES']}: this is one pod of several; start "
            "'torchrun -m ddpcheck run' in each, which reads the pod's variables"
        )
    ranks = environ.get("PET_NPROC_PER_NODE", "")
    numbered = "RANK" in environ and "LOCAL_RANK" not in environ
    if numbered and ranks.isdecimal() and int(ranks) > 1:
        raise UsageError(
            f"PET_NPROC_PER_NODE is {ranks}, and python is one rank: RANK numbers the pods, and "
            f"WORLD_SIZE counts {ranks} ranks in each; start 'torchrun -m ddpcheck run' in each pod"
        )


def require_one_rank(environ: Mapping[str, str], nproc_per_node: int | None) -> None:
    """Raise UsageError in a rank that is alone on its node and was told to start several there.

    It takes part as the one rank that its launcher made it. That would pass for the job, with one
    GPU of each node tried.
    """
    claim = next(iter(claims(environ)), None)
    told = {**environ, **in_torchs_names(environ)}
    size = "1" if claim and claim.launcher == "pytorchjob" else told.get("LOCAL_WORLD_SIZE")
    if claim is None or size != "1" or not nproc_per_node or nproc_per_node == 1:
        return
    if not any(name in environ for name in NESTED):
        raise UsageError(
            f"--nproc-per-node {nproc_per_node}: {_launcher(environ)} has numbered this process as "
            f"rank {claim.rank} of {claim.world_size}, alone on its node, and it starts no others: "
            f"start {nproc_per_node} a node (srun --ntasks-per-node={nproc_per_node}, no "
            "--nproc-per-node), or one torchrun a node that runs -m ddpcheck run"
        )


def identity(environ: Mapping[str, str]) -> Identity:
    """Return who this process is, whoever launched it; raises UsageError when it cannot tell.

    Only what is needed to meet the other ranks must be right here: everything else is
    for the checks of the launch stage to judge.
    """
    told = {**environ, **in_torchs_names(environ)}
    return Identity(
        rank=_number(told, "RANK"),
        local_rank=_number(told, "LOCAL_RANK", told.get("RANK", "0")),
        world_size=_world_size(told),
        host=socket.gethostname(),
        master_addr=_text(told, "MASTER_ADDR"),
        master_port=_port(told),
        launcher=_launcher(environ),
        store_is_hosted=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def as_far_as_known(environ: Mapping[str, str]) -> Identity:
    """Return who a process is that cannot tell; what it does not know is 0, 1 or ''."""

    def number(*names: str) -> int:
        texts = [environ[name].strip() for name in names if environ.get(name)]
        return next((int(text) for text in texts if text.isdecimal()), 0)

    rank = number("RANK", "LOCAL_RANK")
    return Identity(
        rank=rank,
        local_rank=number("LOCAL_RANK"),
        world_size=max(number("WORLD_SIZE"), rank + 1),
        host=socket.gethostname(),
        master_addr=environ.get("MASTER_ADDR", ""),
        master_port=number("MASTER_PORT"),
        launcher=_launcher(environ),
        store_is_hosted=False,
        attempt="0",
    )


def _launcher(environ: Mapping[str, str]) -> str:
    """Return who numbered this process; torch's names may be a translation of another's."""
    told = [claim.launcher for claim in claims(environ)]
    return next((name for name in told if name != TORCH), TORCH)


def _text(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        present = "RANK" if environ.get("RANK") else "LOCAL_RANK"
        raise UsageError(f"{present} is set but {name} is not: {_advice(environ, name)}")
    return value


def _advice(environ: Mapping[str, str], missing: str) -> str:
    launcher = _launcher(environ)
    if missing == "MASTER_ADDR" and launcher != TORCH and launcher in LAUNCHERS:
        return (
            f"{launcher} does not say on which host rank 0 is: set MASTER_ADDR to that host for all "
            "ranks (mpirun -x MASTER_ADDR=HOST, mpiexec -genv MASTER_ADDR HOST)"
        )
    return (
        "start the ranks with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; unset "
        "RANK to let ddpcheck start local ranks"
    )


def _number(environ: Mapping[str, str], name: str, default: str = "") -> int:
    value = environ.get(name) or default or _text(environ, name)
    if not value.strip().isdecimal():
        raise UsageError(f"{name} is '{value}': it must be a whole number, 0 or more")
    return int(value)


def _world_size(environ: Mapping[str, str]) -> int:
    size = _number(environ, "WORLD_SIZE")
    if size < 1:
        raise UsageError("WORLD_SIZE is 0: it must be the number of ranks, 1 or more")
    return size


def _port(environ: Mapping[str, str]) -> int:
    port = _number(environ, "MASTER_PORT")
    if not 1 <= port <= HIGHEST_PORT:
        raise UsageError(f"MASTER_PORT is {port}: a port lies between 1 and {HIGHEST_PORT}")
    return port


@cache
def is_this_host(address: str) -> bool:
    """Return whether an address, or what a name leads to, is one of this host.

    A name that a silent name server does not know within ``LOOKUP_S`` is none; it is asked once.
    """
    places = resolved(address, ANY_PORT, LOOKUP_S)
    return not isinstance(places, str) and any(_is_own(*place) for place in places)


def _is_own(family: socket.AddressFamily, place: tuple[Any, ...]) -> bool:
    # A socket can be bound to an address only on the host that has it.
    with suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((place[0], 0, *place[2:]))
        return True
    return False
