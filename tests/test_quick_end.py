"""A rank leaves with its exit code, and what torch would take apart at its end is left alone."""

import subprocess
import sys

import pytest

# As where a thread of gloo's meets an interpreter that is on its way out.
PROGRAM = """
import atexit, os, sys
from ddpcheck.ranks import QuickEnd

class TakenApart:
    def __del__(self):
        os.abort()

kept = TakenApart()
end = QuickEnd()
atexit.register(lambda: sys.stdout.write("what was there to do at exit\\n"))
end.code = {code}
sys.exit(3)
"""


def ended(code: int | None) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM.format(code=code)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", [0, 3])
def test_nothing_is_taken_apart_once_the_exit_code_is_known(code: int) -> None:
    done = ended(code)
    assert (done.returncode, done.stdout) == (code, "what was there to do at exit\n"), done.stderr


def test_where_it_is_not_known_the_process_ends_as_any_other() -> None:
    assert ended(None).returncode < 0
