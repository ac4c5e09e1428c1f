"""From what is known of a rank at the end to its record in the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.engine.blackbox import Flight, groups_on_file, read_box
from ddpcheck.engine.entries import Crashed, Ended, Entry, presence_in
from ddpcheck.engine.judging import Judgement
from ddpcheck.engine.stacks import shown_waiting_call
from ddpcheck.errors import ReportError
from ddpcheck.finding import Severity
from ddpcheck.measures.inquest import Kind, Ruling, inquest
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.report import LastSeen, RankOutcome, RankRecord

if TYPE_CHECKING:
    from ddpcheck.engine.assembly import Ranks

# faulthandler's first words when it ends a process whose check overran.
TIMED_OUT = "Timeout ("
DIED = (State.GONE, State.GARBLED)


def rank_records(ranks: Ranks, judgements: Sequence[Judgement], backend: str) -> list[RankRecord]:
    """Return one record a rank that was asked for or came, in the order of the ranks.

    A rank that only waited for another one is ``ok``: nothing is wrong with it.
    """
    rulings = inquest(ranks.testimonies)
    records = [
        _record(told, backend, _outcome(rulings[seat], ranks.testimonies[seat]), rulings[seat])
        if rulings[seat].kind is not Kind.THROUGH
        else _came_through(seat, told, judgements, backend)
        for seat, told in ranks.entries.items()
    ]
    for at, seat in enumerate(ranks.entries):
        seen = last_seen(ranks.testimonies[seat])
        if rulings[seat].kind is not Kind.THROUGH and seen is not None:
            records[at] = msgspec.structs.replace(records[at], last_seen=seen)
    records += [
        RankRecord(rank=rank, outcome=RankOutcome.LOST, reason=ranks.absence)
        for rank in ranks.absent
    ]
    return sorted(records, key=lambda record: record.rank)


def last_seen(testimony: Testimony) -> LastSeen | None:
    """Return where the rank was, with its stack where that is known."""
    return LastSeen(testimony.check, testimony.stack) if testimony.check else None


def testimony_told(told: Sequence[Entry], known: Testimony) -> Testimony:
    """Return ``known``, what a living rank said, with what it raised on its way."""
    crash = next((each for each in told if isinstance(each, Crashed)), None)
    unkept = next((each.unkept for each in told if isinstance(each, Ended) and each.unkept), "")
    base = msgspec.structs.replace(known, unkept=unkept)
    if crash is None:
        return base
    return msgspec.structs.replace(
        base,
        state=State.RAISED,
        check=crash.check,
        error=crash.error,
        stack=crash.stack,
        order=crash.order,
        went_on=crash.went_on,
    )


def testimony_on_files(
    box: Path | None, stack: Path | None, state: State, ended_by: str, order: int
) -> Testimony:
    """Return what a rank's black box and last stack say of it, whose process is in ``state``."""
    flight = read_box(box) if box else Flight()
    shown = _text(stack)
    # It could not speak, but could be asked; or its own faulthandler ended it: it did not die.
    timed_out = state is State.GONE and shown.startswith(TIMED_OUT)
    if timed_out or (state is State.SILENT and shown):
        state, ended_by = State.SILENT, "its GIL was held"
    elif state is State.SILENT:
        ended_by = "its process lives, but none of its threads runs"
    pending = next((call.what for call in flight.calls if not call.done), "")
    return Testimony(
        state=state,
        check=flight.check,
        ended_by=ended_by,
        order=order,
        stack=shown,
        waits_in=shown_waiting_call(shown) if shown else pending,
        calls=flight.calls,
        groups=groups_on_file(box),
    )


def _text(file: Path | None) -> str:
    try:
        return file.read_text(errors="replace").strip() if file else ""
    except OSError:
        return ""


def _outcome(ruling: Ruling, testimony: Testimony) -> RankOutcome:
    if ruling.kind is Kind.WAITED:
        return RankOutcome.OK
    if ruling.kind is Kind.RAISED:
        return RankOutcome.FAILED
    if testimony.state in DIED or ruling.kind in (Kind.LOST, Kind.INTERRUPTED):
        return RankOutcome.LOST
    return RankOutcome.STALLED


def _record(
    told: Sequence[Entry], backend: str, outcome: RankOutcome, ruling: Ruling
) -> RankRecord:
    present = presence_in(told)
    if present is None:
        raise ReportError("a rank file does not begin with who its rank is")
    on_gpu = backend == "nccl" and present.gpus
    return RankRecord(
        rank=present.rank,
        local_rank=present.local_rank,
        host=present.host,
        device=f"cuda:{present.local_rank % present.gpus}" if on_gpu else "cpu",
        outcome=outcome,
        reason=ruling.reason,
    )


def _came_through(
    seat: int, told: Sequence[Entry], judgements: Sequence[Judgement], backend: str
) -> RankRecord:
    record = _record(told, backend, RankOutcome.OK, Ruling(Kind.THROUGH, ""))
    crashed = [f"{each.record.id} raised" for each in judgements if seat in each.crashed_ranks]
    blamed = [
        f"{finding.id}: {finding.title}"
        for judgement in judgements
        for finding in judgement.findings
        if finding.severity is Severity.ERROR and record.rank in finding.ranks
    ]
    reasons = [*crashed, *blamed]
    if not reasons:
        return record
    return msgspec.structs.replace(record, outcome=RankOutcome.FAILED, reason=reasons[0])
