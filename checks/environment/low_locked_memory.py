"""The limit on locked memory is too low for InfiniBand or RoCE.

Why it matters
    A network card that reads memory by itself needs that memory locked. With the default limit
    (64 KB, or 8 MB on newer systems) NCCL's first connection to another host fails: "ibv_reg_mr
    failed", "ibv_create_cq failed: Cannot allocate memory". What counts is the limit inside the
    rank: a daemon, srun or mpirun does not pass on what a login shell has.
What to do
    docker run --ulimit memlock=-1, LimitMEMLOCK=infinity in the service of slurmd, kubelet or
    sshd, "* soft memlock unlimited" and "* hard memlock unlimited" in /etc/security/limits.conf;
    then look with ulimit -l from within a job.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.infiniband import all_ports
from ddpcheck.machine.limits import IPC_LOCK, LOCKED_MEMORY, has_capability, limit
from ddpcheck.machine.places import nccl_host
from ddpcheck.measures.hosts import host_names
from ddpcheck.measures.words import listed, size
from ddpcheck.network.rdma import carriers, unused
from ddpcheck.variables.nccl_conf import with_conf_files

ROOT = Path("/")

# The default of systemd and Linux since 5.16 (before that 64 KB); NCCL fails with it.
# Source: github.com/NVIDIA/nccl-tests/issues/206, answered by NCCL's maintainer.
FAILS_BYTES = 8 * 2**20
# NCCL's user guide asks for no limit (Troubleshooting, "InfiniBand"); a rank with 8 channels of
# 9.6 MB each way locks 150 MB where the card cannot read the GPU's memory itself.
AMPLE_BYTES = 2**30


class Facts(msgspec.Struct, frozen=True):
    """The limit in bytes (None is no limit), and the ports that are up, as "mlx5_0:1".

    ``nccl_host`` is common to the ranks that NCCL takes for those of one host.
    """

    host: str
    nccl_host: str
    soft_bytes: int | None
    ports: list[str]


def probe(ctx: Context) -> Facts:
    """Return this process's limit on locked memory, where NCCL would need it."""
    ctx.require_gpu()
    settings = with_conf_files(ctx.environ, ROOT)
    ports = [port.name for port in carriers(settings, all_ports(ROOT))]
    if not ports:
        raise Skip(unused(settings) or "NCCL has no InfiniBand or RoCE port here to use")
    soft = None if has_capability(IPC_LOCK) else limit(LOCKED_MEMORY).soft
    return Facts(ctx.host, nccl_host(ctx.host, ctx.environ), soft, ports)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ranks that cannot lock what NCCL needs; on one host NCCL locks nothing."""
    if len({own.nccl_host for own in facts.values()}) == 1:
        return []
    limits = {rank: own.soft_bytes for rank, own in facts.items() if own.soft_bytes is not None}
    broken = [rank for rank, soft in sorted(limits.items()) if soft <= FAILS_BYTES]
    tight = [rank for rank, soft in sorted(limits.items()) if FAILS_BYTES < soft < AMPLE_BYTES]
    return [
        _finding({rank: facts[rank] for rank in ranks}, severity)
        for ranks, severity in ((broken, Severity.ERROR), (tight, Severity.WARNING))
        if ranks
    ]


def _finding(facts: Mapping[int, Facts], severity: Severity) -> Finding:
    rank, worst = min(facts.items(), key=lambda pair: pair[1].soft_bytes or 0)
    sure = severity is Severity.ERROR
    return Finding(
        title="NCCL cannot use InfiniBand or RoCE" if sure else "little memory may be locked",
        message=f"rank {rank} on {worst.host} may lock {size(worst.soft_bytes or 0)} (ulimit -l), "
        f"and NCCL will use {listed(worst.ports)}; the same on {len(facts)} rank(s) of "
        f"{listed(host_names(facts))}",
        fix="lift the limit for the ranks: docker run --ulimit memlock=-1, LimitMEMLOCK=infinity "
        "in the service that starts them (slurmd, kubelet, sshd), memlock unlimited in "
        "/etc/security/limits.conf; check with ulimit -l inside a job",
        ranks=tuple(sorted(facts)),
        severity=severity,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
    )
