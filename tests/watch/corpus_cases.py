"""The scripts of the corpus: what each is to be told of, and what came of watching it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from real_ranks import Ended, watch, watch_behind

from ddpcheck.finding import Finding, Severity
from ddpcheck.report import CheckOutcome

CORPUS = Path(__file__).parent / "corpus"
# What is not found yet says so: the test expects it to fail, and the scoreboard counts it.
NOT_YET = re.compile(r"^# not yet: (.*)$", re.MULTILINE)
HEADER = re.compile(
    r"^# (fault|finding|severity|ranks|line|says|silent|steps|processes|needs|writes): (.*)$",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Expected:
    """What the header of a faulty script says: ``ranks`` and ``line`` are None where any will do.

    ``says`` is a part of the finding's text, in any part of it.
    """

    finding: str
    severity: Severity
    ranks: tuple[int, ...] | None
    line: str | None
    steps: int
    says: str = ""


@dataclass(frozen=True)
class Seen:
    """What a watched script was told; ``found`` and ``located`` are None for a clean one."""

    ended: Ended
    found: bool | None
    located: bool | None
    others: tuple[str, ...]


def scripts(kind: str) -> list[Path]:
    """Return the scripts of a kind, ``faults`` or ``clean``."""
    return sorted((CORPUS / kind).glob("*.py"))


def expected_of(script: Path) -> Expected:
    """Return what its header says; raises KeyError where it says too little."""
    told = dict(HEADER.findall(script.read_text()))
    ranks = told["ranks"]
    return Expected(
        told["finding"],
        Severity(told["severity"]),
        None if ranks == "any" else tuple(int(each) for each in ranks.split(",")),
        told.get("line"),
        int(told["steps"]),
        told.get("says", ""),
    )


def header_of(script: Path) -> dict[str, str]:
    """Return what its header says: which packages it needs, say, and that it writes files."""
    return dict[str, str](HEADER.findall(script.read_text()))


def missing_for(script: Path) -> list[str]:
    """Return the packages that the script needs and that are not installed."""
    needed = [each for each in header_of(script).get("needs", "").split(", ") if each]
    return [each for each in needed if find_spec(each) is None]


def not_yet(script: Path) -> str:
    """Return why the script is not told of as it should be, or ''."""
    said = NOT_YET.search(script.read_text())
    return said[1] if said else ""


def try_fault(script: Path, folder: Path) -> Seen:
    """Watch a faulty script on as many ranks as it wants."""
    expected = expected_of(script)
    ended = _watched(script, folder, expected.steps)
    told = [each for each in ended.report.findings if each.severity is not Severity.INFO]
    every = ended.report.findings
    mine = [f for f in every if (f.id, f.severity) == (expected.finding, expected.severity)]
    others = tuple(each.id for each in told if each.id != expected.finding)
    is_located = any(_is_there(each, expected) for each in mine)
    return Seen(ended, bool(mine), is_located, (*others, *_raised(ended)))


def try_clean(script: Path, folder: Path) -> Seen:
    """Watch a clean script on as many ranks as it wants."""
    header = header_of(script)
    ended = _watched(script, folder, int(header["steps"]))
    # What is no finding may still be told as information, unless the header has it silent.
    silent = {each for each in header.get("silent", "").split(", ") if each}
    told = {each.id for each in ended.report.findings if each.id in silent}
    others = (*ended.found(), *sorted(told - set(ended.found())), *_raised(ended))
    return Seen(ended, None, None, others)


def _raised(ended: Ended) -> tuple[str, ...]:
    """Return the checks that raised by themselves."""
    checks = ended.report.checks
    return tuple(f"{each.id} raised" for each in checks if each.outcome is CheckOutcome.ERROR)


def _watched(script: Path, folder: Path, steps: int) -> Ended:
    header = header_of(script)
    many = ("--nproc-per-node", header.get("processes", "2"))
    words = ["--steps", str(steps), *many, str(script)]
    if "writes" in header:  # into the folder that it is started in
        return watch_behind([], folder / "reports", *words)
    return watch(folder / "reports", *words)


def _is_there(finding: Finding, expected: Expected) -> bool:
    if expected.ranks is not None and finding.ranks != expected.ranks:
        return False
    if expected.says not in f"{finding.title} {finding.message} {finding.fix}":
        return False
    if expected.line is None:
        return True
    if finding.location is None:
        return False
    lines = Path(finding.location.file).read_text().splitlines()
    return lines[finding.location.line - 1].strip() == expected.line
