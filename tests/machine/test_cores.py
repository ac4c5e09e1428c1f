import os
import subprocess
import sys

import pytest

from ddpcheck.machine.cores import core_count, in_spans, own_cores, spans


@pytest.mark.parametrize(
    ("cores", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0-1"), ([3, 0, 1, 2, 8], "0-3,8"), ([1, 3, 5], "1,3,5")],
)
def test_spans_both_ways(cores: list[int], text: str) -> None:
    assert spans(cores) == text
    assert in_spans(text) == set(cores)


def test_this_process() -> None:
    assert 0 < len(own_cores()) <= core_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no processes")
def test_a_bound_process_tells_its_core() -> None:
    core = max(own_cores())
    source = (
        "import os, sys\n"
        "os.sched_setaffinity(0, {int(sys.argv[1])})\n"
        "from ddpcheck.machine.cores import own_cores\n"
        "print(own_cores())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", source, str(core)], check=True, capture_output=True, text=True
    )
    assert told.stdout.strip() == f"[{core}]"
