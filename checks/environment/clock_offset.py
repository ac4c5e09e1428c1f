"""The clocks of the hosts differ.

Why it matters
    Nothing breaks in the job itself, but log lines of different hosts cannot be put in order: the
    rank that failed first seems to have failed last. Tokens and certificates may count as expired
    or not yet valid, and tools that compare the times of files rebuild too much or too little.
What to do
    Let chrony or systemd-timesyncd set the clocks (chronyc tracking, timedatectl), of containers on
    their host.
"""

import time
from collections.abc import Mapping
from statistics import median_low

import msgspec

from ddpcheck.check import Context, KeyValueStore, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.places import shared_place
from ddpcheck.measures.hosts import by_place, host_names, joined, named
from ddpcheck.measures.words import listed
from ddpcheck.network.polling import wait_until

# NTP keeps hosts within milliseconds (RFC 5905, section 1); logs are read by the second.
OFFSET_S = 1.0
# The ranks arrive at the first meeting when they like, at the second together.
MEETINGS = ("first", "second")
KEYS = "environment/clock-offset"
# A rank that is lost or late must not hold up the others for what is merely worth knowing.
PATIENCE_S = 3.0


class Facts(msgspec.Struct, frozen=True):
    """Two times of this host's clock, in seconds since 1970: one moment lies between them.

    It is the same moment for all ranks: the last of them had come, and none had been let go.
    ``place`` is common to the ranks of one kernel: all its containers have its clock.
    """

    host: str
    place: str
    earliest_s: float
    latest_s: float


def probe(ctx: Context) -> Facts:
    """Return what the clock of this host shows while all ranks meet."""
    if ctx.store is None:
        raise Skip("there is no store to meet in")
    ctx.require_meeting()
    patience_s = min(PATIENCE_S, ctx.timeout.total_seconds() / 2)
    earliest_s = 0.0
    for meeting in MEETINGS:
        earliest_s = time.time()
        _meet(ctx.store, f"{KEYS}/{meeting}", ctx.world_size, patience_s)
    return Facts(ctx.host, shared_place(ctx.host), earliest_s, time.time())


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts whose clock is surely apart from that of the host in the middle."""
    clocks = by_place(facts)
    middle = median_low(sum(_span(clock)) for clock in clocks)
    reference = next(clock for clock in clocks if sum(_span(clock)) == middle)

    def offset_s(clock: dict[int, Facts]) -> float:
        return _apart(_span(clock), _span(reference))

    odd = [clock for clock in clocks if abs(offset_s(clock)) > OFFSET_S]
    if not odd:
        return []
    worst = max(odd, key=lambda clock: abs(offset_s(clock)))
    # Of two hosts nobody can say which one is wrong.
    doubtful = joined(odd if len(clocks) > len((reference, worst)) else clocks)
    return [
        Finding(
            title="the clocks of the hosts differ",
            message=f"{listed(host_names(joined(odd)))}: the clock of {named(worst)} is "
            f"{abs(offset_s(worst)):.1f} s or more {'ahead of' if offset_s(worst) > 0 else 'behind'} "
            f"that of {named(reference)}",
            fix="let chrony or systemd-timesyncd set them: see timedatectl on "
            f"{listed(host_names(doubtful))}",
            ranks=tuple(doubtful),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how exact the comparison is."""
    return f"compared within {max(own.latest_s - own.earliest_s for own in facts.values()):.2g} s"


def _meet(store: KeyValueStore, key: str, world_size: int, patience_s: float) -> None:
    """Wait for all ranks: the last one to come lets all go; raises Skip when it does not come."""
    if store.add(f"{key}/arrived", 1) == world_size:
        store.set(f"{key}/go", "1")
    if not wait_until(lambda: store.check([f"{key}/go"]), patience_s):
        raise Skip("the ranks did not come together")


def _span(clock: Mapping[int, Facts]) -> tuple[float, float]:
    """Return the narrowest times between which the moment lies: the ranks share one clock."""
    own = clock.values()
    return max(each.earliest_s for each in own), min(each.latest_s for each in own)


def _apart(span: tuple[float, float], reference: tuple[float, float]) -> float:
    """Return how far one clock is ahead of the other (behind: negative) at the least, in s."""
    return max(0.0, span[0] - reference[1]) or min(0.0, span[1] - reference[0])
