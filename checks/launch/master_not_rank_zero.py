"""MASTER_ADDR is not the host of rank 0.

Why it matters
    torch lets rank 0 open the store, on rank 0's own host; all others, and rank 0's own client,
    look for it at MASTER_ADDR. When that is another host nobody ever answers, and the job hangs at
    its start until a timeout that names no cause. It happens when hosts are listed in an order of
    one's own, or when a launcher places rank 0 elsewhere than the first host.
What to do
    Set MASTER_ADDR to the host that runs rank 0, or start rank 0 (NODE_RANK 0) on MASTER_ADDR.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding


class Facts(msgspec.Struct, frozen=True):
    """Where the ranks met, and the host that answered there."""

    host: str
    place: str
    store_host: str


def probe(ctx: Context) -> Facts:
    """Return who answered at MASTER_ADDR, if a rank of this job did."""
    ctx.require_meeting()
    if ctx.meeting is None:
        raise Skip("the ranks did not try to meet")
    if not ctx.meeting.store_host:
        raise Skip("the launcher hosts the store, not a rank")
    return Facts(ctx.host, ctx.meeting.place, ctx.meeting.store_host)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding when rank 0 runs on another host than the one that answers."""
    first = facts.get(0)
    if first is None or first.host == first.store_host:
        return []
    return [
        Finding(
            title="rank 0 is not at MASTER_ADDR",
            message=f"{first.place} is on {first.store_host}, but rank 0 runs on {first.host}, "
            "where torch would open the store",
            fix=f"set MASTER_ADDR to {first.host} for all ranks, or start rank 0 on "
            f"{first.store_host}",
            ranks=(0,),
            evidence={"place": first.place, "store_host": first.store_host},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return where the store is."""
    first = next(iter(facts.values()))
    return f"the store is at {first.place}, on {first.store_host}"
