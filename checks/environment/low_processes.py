"""The limit on processes and threads is too low for this job.

Why it matters
    Ranks, their loader workers and the threads of all of them count against one limit of the user
    or of the container. At the limit fork fails with "Resource temporarily unavailable", OpenBLAS
    with "pthread_create failed", or a rank hangs while the others wait for it.
What to do
    docker run --pids-limit -1 (podman's default is 2048), Kubernetes' podPidsLimit, systemd's
    TasksMax=, or ulimit -u; or fewer loader workers (num_workers).
"""

import os
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
from ddpcheck.machine.places import namespace, shared_place
from ddpcheck.measures.hosts import by_place, host_names, joined, named
from ddpcheck.measures.words import listed

# What a rank still starts: two loader workers, each with the thread that feeds its queue, the
# thread that pins memory, the device thread of autograd, and the threads of gloo or NCCL (2-5).
# Measured: a gloo rank that trains with DDP has 4 threads (torch 2.13, OMP_NUM_THREADS=1).
TASKS_COUNT = 12


class Facts(msgspec.Struct, frozen=True):
    """What limits this process's processes and threads ('' when nothing does), and how many run.

    ``place`` is common to the ranks that count against that limit: those of one control group, or
    of one user on a machine.
    """

    host: str
    place: str
    limited_by: str = ""
    limit: int = 0
    used: int = 0


def probe(ctx: Context) -> Facts:
    """Return the limit that has the least room left."""
    told = [each for each in (_of_group(ctx.host), _of_user(ctx.host)) if each is not None]
    unlimited = Facts(ctx.host, shared_place(ctx.host))
    return min(told, key=lambda own: own.limit - own.used, default=unlimited)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts where the ranks are likely to reach the limit."""
    limited = {rank: own for rank, own in facts.items() if own.limited_by}
    short = [ranks for ranks in by_place(limited) if _left(ranks) < 0]
    if not short:
        return []
    ranks = min(short, key=_left)
    worst = max(ranks.values(), key=lambda own: own.used - own.limit)
    everybody = joined(short)
    return [
        Finding(
            title="the limit on processes and threads is low",
            message=f"{listed(host_names(everybody))}: on {named(ranks)} {worst.limited_by} is "
            f"limited to {worst.limit} processes and threads, and {worst.used} run; {len(ranks)} rank(s) with "
            f"two loader workers each would start about {TASKS_COUNT * len(ranks)} more",
            fix="raise it (docker run --pids-limit -1, Kubernetes' podPidsLimit, systemd's "
            "TasksMax=infinity, ulimit -u), or use fewer ranks and loader workers there",
            ranks=tuple(everybody),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def _of_group(host: str) -> Facts | None:
    room = task_room()
    if room is None:
        return None
    place = shared_place(host, "group", room.group)
    return Facts(host, place, "the control group (pids.max)", room.limit, room.used)


def _of_user(host: str) -> Facts | None:
    soft = limit(PROCESSES).soft
    if soft is None or is_free_of_process_limit():
        return None
    # The kernel counts a user's threads in each user namespace by itself (ucounts, Linux 5.14).
    place = shared_place(host, "user", os.getuid(), namespace("user"))
    return Facts(host, place, "the user (ulimit -u)", soft, thread_count_of_user())


def _left(ranks: Mapping[int, Facts]) -> int:
    return min(own.limit - own.used for own in ranks.values()) - TASKS_COUNT * len(ranks)
