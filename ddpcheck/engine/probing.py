"""What one probe gives, whatever it raises."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from functools import partial

import msgspec

from ddpcheck.check import Check, Context, Facts, Skip
from ddpcheck.engine.entries import Crashed, Entry, Measured, Refused, Skipped
from ddpcheck.errors import DdpcheckError

# What the user's code may do to end itself is its outcome, and must not end the rank.
RAISED_BY_CODE = (Exception, SystemExit)


def outcome_of(check: Check, context: Context) -> Entry:
    """Return what one probe gives."""
    return outcome(check.id, partial(check.probe, context), time.perf_counter())


def outcome(check_id: str, measure: Callable[[], Facts], started: float) -> Entry:
    """Return what measuring gives that began at a time of ``perf_counter``."""
    try:
        facts = measure()
    except Skip as skip:
        return Skipped(check_id, str(skip))
    except DdpcheckError as error:
        return Refused(str(error))
    except RAISED_BY_CODE as error:
        return crash_of(check_id, error)
    took_s = round(time.perf_counter() - started, 4)
    return Measured(check_id, msgspec.to_builtins(facts), took_s)


def crash_of(what: str, error: BaseException) -> Crashed:
    """Return the record of what was raised in a check, or beside one."""
    line = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    return Crashed(what, line, "".join(traceback.format_exception(error, limit=-6)))
