"""From what is known of a rank at the end to its record in the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ddpcheck.check import Stage
from ddpcheck.engine.blackbox import Flight, groups_on_file, read_box
from ddpcheck.engine.entries import Crashed, Ended, Entry, Testified, has_ended, presence_in
from ddpcheck.engine.judging import Judgement
from ddpcheck.engine.stacks import shown_waiting_call
from ddpcheck.errors import ReportError
from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.inquest import AT_ITS_END, Kind, Ruling, inquest
from ddpcheck.measures.stack_lines import current_first
from ddpcheck.measures.testimony import Agent, State, Testimony
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
    reasons = blamed(finding for each in judgements for finding in each.findings)
    broken = _broken(judgements)
    records = [
        _record(told, backend, _outcome(rulings[seat], ranks.testimonies[seat]), rulings[seat])
        if rulings[seat].kind is not Kind.THROUGH
        else _came_through(seat, told, reasons, broken, backend)
        for seat, told in ranks.entries.items()
    ]
    for at, seat in enumerate(ranks.entries):
        if rulings[seat].kind is not Kind.THROUGH:
            records[at] = _seen(records[at], ranks.testimonies[seat], ranks.entries[seat])
    records += [
        RankRecord(rank=rank, outcome=RankOutcome.LOST, reason=ranks.absence)
        for rank in ranks.absent
    ]
    return sorted(records, key=lambda record: record.rank)


def last_seen(testimony: Testimony) -> LastSeen | None:
    """Return where the rank was, with its stack where that is known."""
    return LastSeen(testimony.check, testimony.stack) if testimony.check else None


def _seen(record: RankRecord, testimony: Testimony, told: Sequence[Entry]) -> RankRecord:
    if testimony.state is State.ENDED and has_ended(told, Stage.WATCH.value):
        # Its last check was one that looked on, of which a user knows nothing.
        known = "" if AT_ITS_END in record.reason else f"; it {AT_ITS_END}"
        return msgspec.structs.replace(record, reason=record.reason + known)
    return msgspec.structs.replace(record, last_seen=last_seen(testimony))


def testimony_told(told: Sequence[Entry], known: Testimony) -> Testimony:
    """Return ``known``, what a living rank said, with what it raised on its way."""
    crash = next((each for each in told if isinstance(each, Crashed)), None)
    unkept = next((each.unkept for each in told if isinstance(each, Ended) and each.unkept), "")
    agent = known.agent or _silent_agent(told)
    base = msgspec.structs.replace(known, unkept=unkept, agent=agent)
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


def _silent_agent(told: Sequence[Entry]) -> Agent | None:
    """Return the rank's agent, if it was silent when the rank last spoke of it."""
    last = next((each for each in reversed(told) if isinstance(each, Ended | Testified)), None)
    if isinstance(last, Testified):
        return last.testimony.agent
    return last.agent if last else None


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
        stack=current_first(shown),
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
    seat: int,
    told: Sequence[Entry],
    reasons: Mapping[int, str],
    broken: Mapping[int, str],
    backend: str,
) -> RankRecord:
    record = _record(told, backend, RankOutcome.OK, Ruling(Kind.THROUGH, ""))
    reason = broken.get(seat) or reasons.get(record.rank, "")
    if not reason:
        return record
    return msgspec.structs.replace(record, outcome=RankOutcome.FAILED, reason=reason)


def _broken(judgements: Iterable[Judgement]) -> dict[int, str]:
    """Return by seat the first check that raised there."""
    found: dict[int, str] = {}
    for each in judgements:
        for seat in each.crashed_ranks:
            found.setdefault(seat, f"{each.record.id} raised")
    return found


def blamed(findings: Iterable[Finding]) -> dict[int, str]:
    """Return by rank the first error that names it, as the reason of one that came through."""
    found: dict[int, str] = {}
    for each in findings:
        for rank in each.ranks if each.severity is Severity.ERROR else ():
            found.setdefault(rank, blame(each))
    return found


def blame(finding: Finding) -> str:
    """Return a finding as the reason of a rank's outcome."""
    return f"{finding.id}: {finding.title}"
