"""One cell of the injection matrix: a fault, a rank, a launcher and a moment, on real ranks."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import psutil
import real_ranks

from ddpcheck.finding import Severity
from ddpcheck.report import RankOutcome, Report, read_report

HERE = Path(__file__).parent
RANKS = int(os.environ.get("INJECTION_RANKS", "3"))
PAIR = 2
# Joining an NCCL group alone takes seconds.
GPUS = os.environ.get("INJECTION_GPUS", "")
DEADLINE_S = 10.0 if GPUS else 3.0
# What the product promises.
VERDICT_SLACK_S = 2.0
END_SLACK_S = 5.0
# A store's host looks around every 0.1 s, and may wait for a farewell that does not come.
PROCESSES_GONE_S = 5.0

ENDS = ("_exit-0", "_exit-3", "sigkill", "segfault")
HANGS = ("sigstop", "spin", "hang-gil-held", "hang-gil-free", "late")
RAISES = ("raise", "exit-0")
COLLECTIVE = ("skip", "other", "shape", "dtype")
FILES = ("full-disk", "lost-directory")
FAULTS = (*RAISES, *ENDS, *HANGS, *COLLECTIVE, "garbage", *FILES)
LAUNCHERS = ("ddpcheck", "torchrun", "by-hand")
MOMENTS = ("before-init", "during-init", "in-collective", "in-rehearsal")


class Cell(NamedTuple):
    """What is injected, in which rank, under which launcher, when."""

    what: str
    rank: int
    launcher: str
    moment: str

    def __str__(self) -> str:
        return f"{self.what} {self.moment} rank {self.rank} {self.launcher}"


@dataclass(frozen=True)
class Seen:
    """What came of it: times are seconds since the deed; None where it did not come."""

    exit_code: int
    verdict: str
    named: tuple[int, ...]
    outcomes: tuple[str, ...]
    verdict_s: float | None
    ended_s: float
    wrong: tuple[str, ...]


def all_cells() -> Iterator[Cell]:
    """Yield every cell there is: collectives are not to be had before the group is."""
    for what, rank, launcher, moment in product(FAULTS, (0, RANKS - 1), LAUNCHERS, MOMENTS):
        if what not in COLLECTIVE or moment in ("in-collective", "in-rehearsal"):
            yield Cell(what, rank, launcher, moment)


def try_cell(cell: Cell, folder: Path) -> Seen:
    """Run the cell and say what is wrong with what came of it."""
    reports = folder / "reports"
    deed = folder / "deed.json"
    plan = cell._asdict() | {"deadline_s": DEADLINE_S, "report_dir": str(reports)}
    with _small_disk(reports) if cell.what == "full-disk" else _no_disk(reports):
        injection().write_text(json.dumps(plan))
        injection().with_suffix(".at").unlink(missing_ok=True)
        try:
            ended, ended_at, left = _run(cell, reports)
        finally:
            injection().unlink()
        del deed
        return _seen(cell, reports, ended, ended_at, left)


def injection() -> Path:
    """Return this test process's own file of what to inject."""
    folder = Path(os.environ.get("TMPDIR", "/tmp")) / f"injection-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    return folder / "deed.json"


def environment() -> dict[str, str]:
    """Return the variables that let ranks read what to inject."""
    path = f"{HERE}:{os.environ.get('PYTHONPATH', '')}"
    mine = {"PYTHONPATH": path, "INJECTION_FILE": str(injection())}
    return mine | ({"CUDA_VISIBLE_DEVICES": GPUS} if GPUS else {})


def _run(cell: Cell, reports: Path) -> tuple[real_ranks.Ended, float, list[str]]:
    options = ["--deadline", str(DEADLINE_S)]
    tag = uuid.uuid4().hex
    if cell.launcher == "torchrun":
        launcher = ["torch.distributed.run", "--nproc-per-node", str(RANKS), "--standalone"]
        words = ["-m", "ddpcheck", "run", "--profile", "quick", "--report-dir", str(reports)]
        tagged = environment() | {"INJECTION_TAG": tag}
        ended = real_ranks.command(reports, *launcher, *words, *options, **tagged)
        ended_at = time.time()
        return ended, ended_at, _left(lambda process: process.environ().get("INJECTION_TAG") == tag)
    server = real_ranks.server(**environment())
    before = set(server.processes())
    words = ["run", "--profile", "quick", "--report-dir", str(reports), *options]
    if cell.launcher == "ddpcheck":
        environments: Sequence[dict[str, str]] = []
        words += ["--nproc-per-node", str(RANKS)]
    else:
        port = real_ranks.free_port()
        environments = [real_ranks.by_hand(rank, RANKS, port) for rank in range(RANKS)]
    began = time.monotonic()
    codes, stdout, stderr = server.ask(words, environments)
    ended_at = time.time()
    took_s = time.monotonic() - began
    ended = real_ranks.Ended(tuple(codes), stdout, stderr, took_s, reports)
    return ended, ended_at, _left_of(server, before)


def _left_of(server: real_ranks.Server, before: set[int]) -> list[str]:
    until = time.monotonic() + PROCESSES_GONE_S
    while (
        left := set(server.processes()) - before - server.helpers()
    ) and time.monotonic() < until:
        time.sleep(0.05)
    return [str(pid) for pid in sorted(left)]


def _left(is_ours: Callable[[psutil.Process], bool]) -> list[str]:
    until = time.monotonic() + PROCESSES_GONE_S
    while True:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if is_ours(process) and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(str(process.pid))
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def _seen(
    cell: Cell, reports: Path, ended: real_ranks.Ended, ended_at: float, left: list[str]
) -> Seen:
    at = injection().with_suffix(".at")
    deed_at = float(at.read_text()) if at.exists() else None
    found = _report_of(reports, ended)
    if found is None or deed_at is None:
        wrong = ["no report" if found is None else "the deed was not done"]
        return Seen(max(ended.exit_codes), "", (), (), None, ended.took_s, tuple(wrong))
    file, report = found
    verdict_s = file.stat().st_mtime - deed_at
    ended_s = ended_at - deed_at
    named = tuple(
        sorted({r for f in report.findings if f.severity is Severity.ERROR for r in f.ranks})
    )
    outcomes = tuple(record.outcome.value for record in report.ranks)
    code = _exit_code(cell, ended)
    wrong = list(_wrongs(cell, report, named, code))
    # A run whose files are lost misses no deadline: it goes on to its own end.
    goes_on = cell.what in FILES
    if not goes_on and verdict_s > DEADLINE_S + VERDICT_SLACK_S:
        wrong.append(f"verdict after {verdict_s:.1f} s")
    if not goes_on and cell.launcher != "torchrun" and ended_s > DEADLINE_S + END_SLACK_S:
        wrong.append(f"ended after {ended_s:.1f} s")
    if left:
        wrong.append(f"left behind: {', '.join(left)}")
    if ended.stdout.count("verdict: ") != 1:
        wrong.append(f"{ended.stdout.count('verdict: ')} verdicts on stdout")
    return Seen(code, report.verdict.value, named, outcomes, verdict_s, ended_s, tuple(wrong))


def _exit_code(cell: Cell, ended: real_ranks.Ended) -> int:
    if cell.launcher != "by-hand":
        return ended.exit_codes[0]
    # A collective that does not pair up may abort a rank that has done nothing wrong.
    innocent = [code for rank, code in enumerate(ended.exit_codes) if rank != cell.rank]
    by_themselves = {code for code in innocent if code >= 0}
    return by_themselves.pop() if len(by_themselves) == 1 else -1


def _report_of(reports: Path, ended: real_ranks.Ended) -> tuple[Path, Report] | None:
    lines = [line for line in ended.stdout.splitlines() if line.startswith("verdict: ")]
    if not lines:
        return None
    file = Path(lines[-1].rpartition("| ")[2])
    file = file if file.is_absolute() else reports.parent / file
    if not file.is_file():
        file = reports / "latest" / "report.json"
    with suppress(Exception):
        return file, read_report(file)
    return None


def _wrongs(cell: Cell, report: Report, named: tuple[int, ...], code: int) -> Iterator[str]:
    # torchrun ends with 1 whatever its ranks ended with.
    if code not in ((1,) if cell.launcher == "torchrun" else (1, 4)):
        yield f"exit code {code}"
    if cell.what in FILES:
        if cell.rank not in named:
            yield f"rank {cell.rank} not among those named: {named}"
        return
    # Of two ranks that differ, nobody can say which is right: both are named.
    both = RANKS == PAIR and cell.what in COLLECTIVE and named == (0, 1)
    if both:
        return
    if named != (cell.rank,):
        yield f"named {named}"
    outcomes = {record.rank: record.outcome for record in report.ranks}
    if [rank for rank in outcomes if outcomes[rank] is not RankOutcome.OK] != [cell.rank]:
        yield f"outcomes {[each.value for each in outcomes.values()]}"
    record = next(each for each in report.ranks if each.rank == cell.rank)
    if cell.what in (*HANGS, *ENDS) and (record.last_seen is None or not record.last_seen.check):
        yield "no last check"
    lives_and_can_tell = ("spin", "hang-gil-held", "hang-gil-free", "late", "segfault")
    if cell.what in lives_and_can_tell and not (record.last_seen and record.last_seen.stack):
        yield "no stack"


@contextmanager
def _small_disk(reports: Path) -> Generator[None]:
    reports.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(reports)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(reports)], check=True)


@contextmanager
def _no_disk(_reports: Path) -> Generator[None]:
    yield


def one_line(cell: Cell, seen: Seen) -> str:
    """Return the cell and what came of it, for the table."""
    verdict_s = "-" if seen.verdict_s is None else f"{seen.verdict_s:.1f}"
    named = ", ".join(str(rank) for rank in seen.named)
    return (
        f"{cell.what:<14} {cell.moment:<14} {cell.rank} {cell.launcher:<9} exit {seen.exit_code} "
        f"{seen.verdict:<10} named {named:<5} verdict {verdict_s:>5} s  ended {seen.ended_s:5.1f} s"
        f"  {'; '.join(seen.wrong)}"
    ).rstrip()
