"""A rank overran its deadline, or fell silent, and the others waited for it.

Why it matters
    One rank that hangs outside of the collectives, or never enters the one that the others wait
    in, stops the whole job. Its own stack says where; the others' stacks are all alike.

What to do
    Read the stack of the named rank: its last line is what it was doing. If it only needs longer,
    raise --deadline. A stopped process goes on with: kill -CONT PID.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.agents import LOST_HOST
from ddpcheck.measures.inquest import Kind, inquest
from ddpcheck.measures.stack_lines import told_places, users_place
from ddpcheck.measures.testimony import NO_SIGN, State, Testimony
from ddpcheck.measures.words import spans

Facts = Testimony
JOINING = re.compile(r'distributed_c10d\.py", line \d+,? in init_process_group')
FROM_WORKERS = re.compile(r'utils/data/dataloader\.py", line \d+,? in _get_data')
ONE_SIDED = {"send": "recv", "isend": "recv", "recv": "send", "irecv": "send"}
# As measures.waiting says it of a transfer.
UNSENT = "was not sent"
FIX_WORKERS = (
    "see what the dataset does in the loader's worker, whose stack this is not: with num_workers=0 it "
    "works in the rank itself, and with DataLoader(timeout=60) a worker that hangs raises"
)
FIX_LATE = (
    "let it come as the others do; where it has slow work to do, do that before "
    "init_process_group, or give the group more time: init_process_group(timeout=...)"
)
FIX_UNSENT = (
    "send what the other side receives, as often and in the same order: of batch_isend_irecv the "
    "lists of both sides must match"
)


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a finding for the ranks that stalled the others, or for all when nobody did."""
    rulings = inquest(facts)
    kinds = (Kind.STALLED, Kind.ABSENT_FROM_CALL)
    stalled = {rank: ruling for rank, ruling in rulings.items() if ruling.kind in kinds}
    if not stalled:
        interrupted = any(ruling.kind is Kind.INTERRUPTED for ruling in rulings.values())
        return _while_they_met(facts) if interrupted else []
    first = min(stalled)
    # Where every rank waits in the same collective, none of them is the cause.
    places = {facts[rank].waits for rank in stalled}
    together = len(places) == 1 and "" not in places and len(stalled) == len(facts) > 1
    unsent = all(UNSENT in ruling.reason for ruling in stalled.values()) and not _one_sided(places)
    return [
        Finding(
            title="ranks wait to receive what the others do not send"
            if unsent
            else _together(facts[first].waits)
            if together
            else f"{len(stalled)} of {len(facts)} ranks stalled the run",
            message="; ".join(f"rank {rank} {ruling.reason}" for rank, ruling in stalled.items())
            + told_places(facts, stalled),
            fix=FIX_UNSENT if unsent else _fix(facts[first], together=together),
            location=users_place(facts[first].stack),
            ranks=tuple(sorted(stalled)),
            confidence=Confidence.MEDIUM if together else Confidence.HIGH,
            evidence={
                "check": facts[first].check,
                "stack": facts[first].stack,
                "waits_in": {str(rank): facts[rank].waits_in for rank in facts},
            },
        )
    ]


def summarize(facts: Mapping[int, Testimony]) -> str:
    """Return what did not happen, if it did not."""
    return "" if judge(facts) else "no rank kept the others waiting"


def _while_they_met(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return who was waited for when somebody stopped a run whose ranks were joining their group.

    It may have needed longer: nobody is accused.
    """
    joining = [rank for rank, each in sorted(facts.items()) if JOINING.search(each.stack)]
    missing = [rank for rank in sorted(facts) if rank not in joining]
    if not joining:
        return []
    named = missing or joining
    told = "had not called it yet" if missing else "called it, and did not meet the others there"
    return [
        Finding(
            title=f"rank {spans(joining)} waited in init_process_group when the run was stopped",
            message=f"rank {spans(named)} {told}{told_places(facts, named)}",
            fix="see what the named line waits for: a file or a lock of an earlier start, say"
            if missing
            else "see whether all ranks are given one address, and one that no earlier start uses; "
            "ranks that torchrun has restarted may be given those of the start before by torch: export "
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",
            severity=Severity.INFO,
            confidence=Confidence.MEDIUM,
            ranks=tuple(named),
            location=users_place(facts[named[0]].stack),
        )
    ]


def _one_sided(places: set[str]) -> bool:
    return places <= set(ONE_SIDED)


def _together(waits: str) -> str:
    if waits in ONE_SIDED:
        return f"every rank waits in {waits}, and none in {ONE_SIDED[waits]}"
    return "every rank waits in the same collective"


def _fix(first: Testimony, *, together: bool) -> str:
    if together and first.waits in ONE_SIDED:
        return (
            "let one of two ranks receive first, or send and receive with batch_isend_irecv; count whether "
            "one of them sends once more than the other receives"
        )
    if together:
        return "look at the network between the ranks: run --select network,collectives"
    if first.state is State.STOPPED:
        return "see who stopped it; it goes on with kill -CONT and its pid"
    if first.ended_by == NO_SIGN and first.is_watched:
        return LOST_HOST
    if first.is_watched:
        return FIX_WORKERS if FROM_WORKERS.search(first.stack) else FIX_LATE
    return "read the stack of the named rank in the report; raise --deadline if it is slow"
