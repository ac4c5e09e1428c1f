"""ddpcheck's own commands as tests call them: in processes of their own."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ddpcheck.errors import DdpcheckError
from ddpcheck.finding import Finding, Severity
from ddpcheck.render import render
from ddpcheck.render.words import verdict_line, worst_first
from ddpcheck.report import Report, Verdict, read_report

CALLED = "ddpcheck.testing.called"


def preflight(ranks: int, folder: Path) -> Report:
    """Return the report of ``ddpcheck run``; fails the test where there is none."""
    return _report_of(["run", f"--nproc-per-node={ranks}"], folder)


@dataclass(frozen=True)
class Watching:
    """Runs a function on ranks, under the observers of ``ddpcheck watch``."""

    folder: Path

    def __call__(
        self,
        function: Callable[[], object],
        *,
        ranks: int = 2,
        steps: int = 30,
        allow: tuple[str, ...] = (),
        fail_on: str = "warning",
    ) -> Report:
        """Return the report of the training that ``function()`` is, on this many ranks.

        function: found again by its module and name in each rank, where it makes the process group
        and trains; it is watched for ``steps`` optimizer steps, or, for 0, to its end. allow: ids of
        checks that may find something. Fails the test on other findings of the severity ``fail_on``
        or worse, and where a rank did not come through.
        """
        where, least = _where(function), _weight(fail_on)
        # One of its own: a report of an earlier call must not be taken for this one's.
        folder = Path(tempfile.mkdtemp(prefix="watch-", dir=self.folder))
        watched = ["watch", f"--nproc-per-node={ranks}", f"--steps={steps}", "-m", CALLED, *where]
        report = _report_of(watched, folder)
        told = [
            each
            for each in report.findings
            if each.severity.weight >= least and each.id not in allow
        ]
        if told or report.verdict is Verdict.INCOMPLETE:
            pytest.fail(_shown(report, told, folder), pytrace=False)
        return report


def _weight(severity: str) -> int:
    if severity not in tuple(Severity):
        raise pytest.UsageError(f"fail_on={severity!r}: choose from {', '.join(Severity)}")
    return Severity(severity).weight


def _shown(report: Report, told: list[Finding], folder: Path) -> str:
    """Return what is wrong: in a line, for pytest's summary, and as ``ddpcheck watch`` shows it."""
    worst = worst_first(told)[:1]
    lines = [f"{each.id}: {each.title}{_at(each)}" for each in worst] or [verdict_line(report)]
    failing = structs.replace(report, checks=(), findings=told, recommendation={})
    return "\n\n".join([*lines, render(failing, "text", str(folder))])


def _at(finding: Finding) -> str:
    place = finding.location
    return f" at {place.file}:{place.line}" if place else ""


def _where(function: Callable[[], object]) -> tuple[str, str]:
    """Return the file and the name by which a rank finds the function; raises pytest.UsageError.

    A decorator's wrapper has the name of what it wraps, and stands in a file of its own.
    """
    code: Any = getattr(inspect.unwrap(function), "__code__", None)
    name = getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier():
        raise pytest.UsageError(
            f"ddpcheck_watch runs functions of a module, which ranks can find: {function!r} is none"
        )
    return code.co_filename, name


def _report_of(words: list[str], folder: Path) -> Report:
    command = [sys.executable, "-m", "ddpcheck", *words[:1], f"--report-dir={folder}", *words[1:]]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(own_paths())}
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    with suppress(DdpcheckError):
        return read_report(folder / "latest")
    told = (ended.stderr or ended.stdout).strip()
    pytest.fail(f"'ddpcheck {words[0]}' left no report: {told}", pytrace=False)


def own_paths() -> list[str]:
    """Return where this process finds modules beside Python's own: as pytest's pythonpath says."""
    pythons = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")]
    return [
        path or str(Path.cwd())
        for path in sys.path
        if not any(Path(path).is_relative_to(own) for own in pythons)
    ]
