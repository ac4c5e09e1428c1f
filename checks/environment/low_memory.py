"""The memory is nearly used up before training begins.

Why it matters
    When a container or a machine runs out of memory the kernel kills a process at once (signal 9,
    exit code 137). No Python code sees it: one rank is gone, and the others wait for it.
What to do
    Give the job more memory (docker run --memory, Kubernetes' limits.memory, sbatch --mem), start
    fewer ranks and loader workers a host, or stop what else uses the memory there.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.memory import tightest_memory
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place, host_names, joined, named
from ddpcheck.measures.words import listed, size

# What a rank takes besides its model between importing torch and its third step with DDP.
# Measured on torch 2.13, gloo, one linear layer: from 219 to 305 MiB.
GROWTH_BYTES = 86 * 2**20


class Facts(msgspec.Struct, frozen=True):
    """The tightest limit on memory here, and what is used of it without the cache, in bytes.

    ``place`` is common to the ranks of the control group that has the limit, or of one machine:
    containers on it share its memory, whatever they are called.
    """

    host: str
    place: str
    limited_by: str
    limit_bytes: int
    used_bytes: int


def probe(ctx: Context) -> Facts:
    """Return how much memory is left."""
    told = tightest_memory()
    if told is None:
        raise Skip("this system does not tell how much memory is left")
    limited_by, room = told
    place = shared_place(ctx.host, limited_by, room.group)
    return Facts(ctx.host, place, limited_by, room.limit, room.used)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts that have less left than the smallest training takes."""
    short = [ranks for ranks in by_place(facts) if _missing(ranks) > 0]
    if not short:
        return []
    ranks = max(short, key=_missing)
    worst = min(ranks.values(), key=_left)
    everybody = joined(short)
    return [
        Finding(
            title="hardly any memory is left",
            message=f"{listed(host_names(everybody))}: on {named(ranks)} {worst.limited_by} has "
            f"{size(_left(worst))} left of {size(worst.limit_bytes)}; {len(ranks)} rank(s) take "
            f"{size(len(ranks) * GROWTH_BYTES)} more even for a tiny model",
            fix="give the job more memory (docker run --memory, Kubernetes' limits.memory, sbatch "
            "--mem), or start fewer ranks there (--nproc-per-node)",
            ranks=tuple(everybody),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the least that is left on a host."""
    worst = min(facts.values(), key=_left)
    return f"{size(_left(worst))} left at least, of {size(worst.limit_bytes)}"


def _missing(ranks: Mapping[int, Facts]) -> int:
    return len(ranks) * GROWTH_BYTES - min(_left(own) for own in ranks.values())


def _left(own: Facts) -> int:
    return max(0, own.limit_bytes - own.used_bytes)
