"""The limit on processes and threads is too low for this job.

Why it matters
    Ranks, their loader workers and the threads of all of them count against one limit of the user
    or of the container. At the limit fork fails with "Resource temporarily unavailable", OpenBLAS
    with "pthread_create failed", or a rank hangs while the others wait for it.
What to do
    docker run --pids-limit -1 (podman's default is 2048), Kubernetes' podPidsLimit, systemd's
    TasksMax=, or ulimit -u; or fewer loader workers (num_workers).
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.cgroups import task_room
from ddpcheck.machine.limits import (
    PROCESSES,
    is_free_of_process_limit,
    limit,
    thread_count_of_user,
)
from ddpcheck.measures.hosts import by_host, ranks_on
from ddpcheck.measures.words import listed

# What a rank still starts: two loader workers, each with the thread that feeds its queue, the
# thread that pins memory, the device thread of autograd, and the threads of gloo or NCCL (2-5).
# Measured: a gloo rank that trains with DDP has 4 threads (torch 2.13, OMP_NUM_THREADS=1).
TASKS_COUNT = 12


class Facts(msgspec.Struct, frozen=True):
    """What limits this process's processes and threads ('' when nothing does), and how many run."""

    host: str
    limited_by: str = ""
    limit: int = 0
    used: int = 0


def probe(ctx: Context) -> Facts:
    """Return the limit that has the least room left."""
    rooms = [
        (room.left, Facts(ctx.host, "the control group (pids.max)", room.limit, room.used))
        for room in [task_room()]
        if room is not None
    ]
    own = limit(PROCESSES).soft
    if own is not None and not is_free_of_process_limit():
        used = thread_count_of_user()
        rooms.append((own - used, Facts(ctx.host, "the user (ulimit -u)", own, used)))
    return min(rooms, key=lambda pair: pair[0], default=(0, Facts(ctx.host)))[1]


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts where the ranks are likely to reach the limit."""
    left = {
        host: min(own.limit - own.used for own in ranks.values()) - TASKS_COUNT * len(ranks)
        for host, ranks in by_host(facts).items()
        if all(own.limited_by for own in ranks.values())
    }
    short = [host for host, count in left.items() if count < 0]
    if not short:
        return []
    ranks = by_host(facts)[min(short, key=lambda host: left[host])]
    worst = max(ranks.values(), key=lambda own: own.used - own.limit)
    return [
        Finding(
            title="the limit on processes and threads is low",
            message=f"{listed(short)}: on {worst.host} {worst.limited_by} is limited to "
            f"{worst.limit} processes and threads, and {worst.used} run; {len(ranks)} rank(s) with "
            f"two loader workers each would start about {TASKS_COUNT * len(ranks)} more",
            fix="raise it (docker run --pids-limit -1, Kubernetes' podPidsLimit, systemd's "
            "TasksMax=infinity, ulimit -u), or use fewer ranks and loader workers there",
            ranks=ranks_on(short, facts),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]
