"""What one probe gives, whatever it raises."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from ddpcheck.check import Check, Context, Facts, Skip
from ddpcheck.engine.entries import Crashed, Entry, Measured, Refused, Skipped
from ddpcheck.errors import DdpcheckError
from ddpcheck.measures.stack_lines import is_users

# What the user's code may do to end itself is its outcome, and must not end the rank.
RAISED_BY_CODE = (Exception, SystemExit)
# Where torch has an exception that is no Exception, once that is imported.
CHECKPOINTS = "torch.distributed.checkpoint.api"
# Of an exception's frames so many are told, the last ones.
KEPT_FRAMES = 6


def outcome_of(check: Check, context: Context) -> Entry:
    """Return what one probe gives."""
    return outcome(check.id, partial(check.probe, context), time.perf_counter())


def outcome(check_id: str, measure: Callable[[], Facts], started: float) -> Entry:
    """Return what measuring gives that began at a time of ``perf_counter``."""
    try:
        told = msgspec.to_builtins(measure(), enc_hook=_pythons_own)
    except Skip as skip:
        return Skipped(check_id, str(skip))
    except DdpcheckError as error:
        return Refused(str(error))
    except RAISED_BY_CODE as error:
        return crash_of(check_id, error)
    took_s = round(time.perf_counter() - started, 4)
    return Measured(check_id, told, took_s)


def _pythons_own(value: Any) -> object:
    """Return a number of numpy's, or of a tensor, as Python's: a script may have set it anywhere."""
    if not hasattr(value, "item"):
        raise TypeError(f"facts hold a {type(value).__name__}, which no report can hold")
    return value.item()


def raised_by_code() -> tuple[type[BaseException], ...]:
    """Return what a script may raise by its own fault, as far as its libraries are imported."""
    api = sys.modules.get(CHECKPOINTS)
    more: type[BaseException] | None = getattr(api, "CheckpointException", None)
    return RAISED_BY_CODE if more is None else (*RAISED_BY_CODE, more)


def crash_of(what: str, error: BaseException) -> Crashed:
    """Return the record of what was raised in a check, or beside one."""
    line = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
    return Crashed(what, line, "".join(_told(traceback.TracebackException.from_exception(error))))


def _told(error: traceback.TracebackException) -> Iterator[str]:
    """Return the last frames of each exception, after the user's own line that led to them."""
    seen: set[int] = set()
    waiting: list[traceback.TracebackException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.stack = _shortened(each.stack)
            waiting += [each.__cause__, each.__context__]
    return error.format()


def _shortened(stack: traceback.StackSummary) -> traceback.StackSummary:
    early, late = list(stack[:-KEPT_FRAMES]), list(stack[-KEPT_FRAMES:])
    own = [] if any(is_users(each.filename) for each in late) else early
    return traceback.StackSummary.from_list([*[e for e in own if is_users(e.filename)][-1:], *late])
