"""A rank leaves with its exit code, and what torch would take apart at its end is left alone."""

import subprocess
import sys

import pytest

# As where a thread of gloo's meets an interpreter that is on its way out.
PROGRAM = """
import atexit, ctypes, os, sys, types
from ddpcheck import cli

class TakenApart:
    def __del__(self):
        os.abort()

kept = TakenApart()
if {has_torch}:
    sys.modules["torch"] = types.ModuleType("torch")
atexit.register(lambda: sys.stdout.write("what was there to do at exit\\n"))
ctypes.CDLL(None).puts(b"what a library wrote")
sys.argv = ["ddpcheck", "--local-rank=0", {command!r}]
cli._exit_code = lambda words: 3
cli.command()
"""
TOLD = {"what was there to do at exit", "what a library wrote"}


def ended(command: str, *, has_torch: bool) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(command=command, has_torch=has_torch)
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run", "train"])
def test_nothing_is_taken_apart_where_ddpcheck_alone_used_torch(command: str) -> None:
    done = ended(command, has_torch=True)
    assert (done.returncode, set(done.stdout.splitlines())) == (3, TOLD), done.stderr


@pytest.mark.parametrize(("command", "has_torch"), [("watch", True), ("list", False)])
def test_any_other_process_ends_as_python_does(command: str, has_torch: bool) -> None:
    assert ended(command, has_torch=has_torch).returncode < 0
