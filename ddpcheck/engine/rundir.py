"""The run directory: its id, its making, and the link to the newest."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ddpcheck import jsontext
from ddpcheck.engine.assembly import RUN_NAME
from ddpcheck.errors import ReportError
from ddpcheck.report import Report, Run, write_report
from ddpcheck.secrecy.redaction import redacted, redacted_text

# Stands in a run directory, until the run has a report, when its parent was made for it.
FIRST_NAME = ".first"
# Stands there when a script was stopped after its report: what it has not done is no fault.
STOPPED_NAME = ".stopped"


def new_run_id() -> str:
    """Return a run id: UTC time and four random hex digits."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"ddpcheck-{stamp}-{secrets.token_hex(2)}"


def make_run_dir(report_dir: str, run_id: str) -> Path:
    """Make ``report_dir/run_id/ranks`` and return the run directory; raises ReportError."""
    run_dir = Path(report_dir).absolute() / run_id
    is_first = not run_dir.parent.exists()
    try:
        (run_dir / "ranks").mkdir(parents=True, exist_ok=True)
        if is_first:
            (run_dir / FIRST_NAME).touch()
    except OSError as error:
        raise ReportError(
            f"cannot write reports to {report_dir}: {error.strerror}; "
            "choose another place with --report-dir"
        ) from error
    return run_dir


def note_start(run: Run, run_dir: Path) -> None:
    """Write down what was asked for, so that a report can be assembled after any crash."""
    with suppress(OSError):
        (run_dir / RUN_NAME).write_bytes(jsontext.encode(redacted(run)))


def keep_report(report: Report, run_dir: Path) -> Path:
    """Write the report and return its path, or that of the directory when nowhere takes it.

    Where the run directory was lost, or has no space left, the temporary directory takes it.
    """
    for place in (run_dir, spare_dir(run_dir)):
        try:
            place.mkdir(parents=True, exist_ok=True)
            path = write_report(report, place)
        except (ReportError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            sys.stderr.write(f"ddpcheck: no report in {place}: {reason}\n")
            continue
        if place == run_dir:
            point_latest_to(run_dir)
        hide_in_stacks(run_dir)
        return path
    return run_dir


def hide_in_stacks(run_dir: Path) -> None:
    """Take secrets, as in a path, out of the stacks that faulthandler has written there.

    They keep their length: a rank that still runs goes on writing where it was.
    """
    for file in (run_dir / "ranks").glob("*.stack"):
        with suppress(OSError):
            before = file.read_bytes()
            text = before.decode(errors="surrogateescape")
            after = redacted_text(text).encode(errors="surrogateescape")
            if after != before:
                with file.open("r+b") as stream:
                    stream.write(after.ljust(len(before)))


def spare_dir(run_dir: Path) -> Path:
    """Return where a report goes that its run directory does not take."""
    return Path(tempfile.gettempdir()) / run_dir.name


def point_latest_to(run_dir: Path) -> None:
    """Let ``latest`` beside the run directory point to it, where links can be made."""
    link = run_dir.parent / "latest"
    draft = run_dir.parent / f".latest-{run_dir.name}"
    with suppress(OSError):
        (run_dir / FIRST_NAME).unlink(missing_ok=True)
    with suppress(OSError):
        draft.symlink_to(run_dir.name)
        draft.replace(link)
    with suppress(OSError):
        draft.unlink(missing_ok=True)


def note_stop(run_dir: Path) -> None:
    """Write down that the script has been stopped, since there is a report."""
    with suppress(OSError):
        (run_dir / STOPPED_NAME).touch()


def is_stopped(run_dir: Path) -> bool:
    """Return whether the script has been stopped in the middle."""
    return (run_dir / STOPPED_NAME).exists()


def discard(run_dir: Path) -> None:
    """Remove a run directory that holds no report."""
    made_parent = (run_dir / FIRST_NAME).exists()
    shutil.rmtree(run_dir, ignore_errors=True)
    if made_parent:
        with suppress(OSError):
            run_dir.parent.rmdir()
