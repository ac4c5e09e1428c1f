"""NCCL does otherwise than a setting says.

Why it matters
    Who sets NCCL_P2P_DISABLE to look for a fault, or NCCL_NET to pin a network, builds on it. A
    setting that came too late, that a plug-in overrides, or that this version of NCCL reads in
    another way leads on to false conclusions.

What to do
    Set it in the environment of the process before it starts, for all ranks alike. NCCL_DEBUG=INFO
    and NCCL_DEBUG_SUBSYS=ENV show what NCCL reads; an NCCL_ENV_PLUGIN may answer in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.nccl_log import Log, Path, Transport, log_in
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.words import listed, spans
from ddpcheck.variables.environ import shown
from ddpcheck.variables.nccl_conf import with_conf_files
from ddpcheck.variables.registry import VARIABLES
from ddpcheck.variables.values import number_read

# These are set by ddpcheck itself while the group is made.
LOGS = "NCCL_DEBUG"
# What each switch rules out when it is 1. Source: NCCL v2.30.7, ncclGetLevel in src/graph/paths.cc,
# shmCanConnect in src/transport/shm.cc, ncclIbInitDevices in src/transport/net_ib.
RULED_OUT = {
    "NCCL_P2P_DISABLE": (Transport.P2P,),
    "NCCL_SHM_DISABLE": (Transport.SHM,),
    "NCCL_IB_DISABLE": (Transport.NET_RDMA, Transport.NET_RDMA_DIRECT),
}
LEAST = {"NCCL_MIN_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NRINGS"}
OWN_NETWORKS = ("ib", "socket")


class Facts(msgspec.Struct, frozen=True):
    """The NCCL variables of a rank, those in NCCL's files included, and what its log says."""

    host: str
    settings: dict[str, str]
    log: Log


def probe(ctx: Context) -> Facts:
    """Read NCCL's log of this run's process group."""
    ctx.require_group()
    ctx.require_gpu()
    if not ctx.nccl_log:
        raise Skip("NCCL_DEBUG is set: NCCL's log goes where you sent it")
    given = with_conf_files(ctx.environ)
    return Facts(
        host=ctx.host,
        settings={
            name: shown(name, value)
            for name, value in sorted(given.items())
            if name.startswith("NCCL_") and not name.startswith(LOGS) and value.strip()
        },
        log=log_in(ctx.nccl_log),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the ranks that say the same of the same settings."""
    told = {rank: tuple(_contradictions(own)) for rank, own in facts.items()}
    odd = {rank: words for rank, words in told.items() if words}
    return [
        Finding(
            title="NCCL does otherwise than a setting says",
            message=f"rank {spans(alike)}: {listed(told[alike[0]], '; ')}",
            fix="set it before the ranks start, for all alike (your script may set it, too); "
            "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS=ENV shows what NCCL reads",
            ranks=tuple(alike),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
        for alike in grouped(odd).values()
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many settings NCCL says it read; it reads some only where they matter."""
    names = {name for own in facts.values() for name in own.settings}
    silent = sorted(
        name for name in names if not any(name in o.log.variables for o in facts.values())
    )
    if not names:
        return "no variable of NCCL is set"
    told = f"NCCL read {len(names) - len(silent)} of {len(names)} variables"
    return told + (f"; it says nothing of {listed(silent)}" if silent else "")


def _contradictions(own: Facts) -> Iterator[str]:
    """Yield what of the log speaks against a setting."""
    yield from _numbers_read(own)
    for name, transports in RULED_OUT.items():
        used = [path for path in own.log.paths if path.transport in transports]
        is_meant = name != "NCCL_P2P_DISABLE" or not _is_beyond_levels(own, used)
        if used and is_meant and number_read(own.settings.get(name, "0")) == 1:
            yield f"{name}=1, and data goes via {used[0].words}"
    wanted, used_network = own.settings.get("NCCL_NET", "").strip(), own.log.network
    if wanted.casefold() in OWN_NETWORKS and used_network.casefold() not in ("", wanted.casefold()):
        yield f"NCCL_NET={wanted}, and NCCL uses {used_network}"
    most, used_count = own.settings.get("NCCL_MAX_NCHANNELS"), own.log.channels_count
    # Where both are given and clash, the least number wins. NCCL 2.20 to 2.27 also counts the
    # channels of an NVLink switch here (connectNvls in src/graph/connect.cc of v2.27.5).
    is_clear = used_count != own.log.nvls_channels_count and not own.settings.keys() & LEAST
    if most and is_clear and 0 < number_read(most) < (used_count or 0):
        yield f"NCCL_MAX_NCHANNELS={most}, and NCCL uses {used_count} channels"


def _is_beyond_levels(own: Facts, used: Sequence[Path]) -> bool:
    """Return whether ranks share GPUs, or an NVLink domain spans hosts: no level holds there."""
    spans_hosts = any("MNNVL" in path.words for path in used)
    return spans_hosts or "NCCL_MULTI_RANK_GPU_ENABLE" in own.settings


def _numbers_read(own: Facts) -> Iterator[str]:
    for name, value in own.settings.items():
        said, variable = own.log.variables.get(name, ""), VARIABLES.get(name)
        is_number = variable is not None and variable.kind.startswith("number")
        if is_number and said.lstrip("-").isdecimal() and int(said) != number_read(value):
            yield f"{name}={value}, and NCCL read {said}"
