"""Run the user's script as Python would, in a process that has already begun."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from ddpcheck.errors import UsageError

OWN = Path(__file__).parents[1]


def run_script(words: Sequence[str], *, is_module: bool) -> None:
    """Run a file, or a module, as ``__main__`` with its own arguments; raises what it raises."""
    name, *_ = words
    with _as_started(words, is_module=is_module):
        if is_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(Path(name).resolve()), run_name="__main__")


def require_script(words: Sequence[str], *, is_module: bool) -> None:
    """Raise UsageError when there is no such file: better before ranks are started."""
    if not is_module and not Path(words[0]).is_file():
        raise UsageError(f"there is no script {words[0]}: name a file, or a module with -m")


@contextmanager
def _as_started(words: Sequence[str], *, is_module: bool) -> Generator[None]:
    """Let ``sys.argv`` and ``sys.path`` be what ``python SCRIPT ARGS`` would make them."""
    argv, path = sys.argv, sys.path
    sys.argv = list(words)
    here = str(Path.cwd()) if is_module else str(Path(words[0]).resolve().parent)
    # Its first entry is where ddpcheck itself was started from.
    sys.path = [here, *path[1:]]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path


def status_of(end: SystemExit) -> int:
    """Return the exit code that Python would end with, and say what it would say."""
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1


def show_raised(error: BaseException) -> None:
    """Show what the script raised, as Python would."""
    trace = script_part(error.__traceback__)
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    sys.stderr.flush()


def script_part(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback from where the script's own code begins, as Python would show it."""
    while trace is not None and trace.tb_next is not None and _is_on_the_way(trace):
        trace = trace.tb_next
    return trace


def _is_on_the_way(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return (
        file.startswith("<frozen runpy")
        or Path(file).name == "runpy.py"
        or OWN in Path(file).parents
    )
