import os
import subprocess
import sys
from pathlib import Path

import msgspec
from contexts import context_with

from ddpcheck.checks.environment.too_few_cores import Facts, judge, probe
from ddpcheck.finding import Severity

SOURCE = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import msgspec
from contexts import context_with
from ddpcheck.checks.environment.too_few_cores import probe
sys.stdout.buffer.write(msgspec.json.encode(probe(context_with(environ=dict(os.environ)))))
"""


def test_ranks_that_are_really_bound_to_one_core() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SOURCE, str(Path(__file__).parents[2])],
        env=os.environ | {"OMP_NUM_THREADS": "3"},
        check=True,
        capture_output=True,
    )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    # MKL starts no more threads than there are cores, whatever was asked for.
    assert facts.asked == "3"
    assert 1 <= facts.threads <= 3
    assert facts.cores == str(min(os.sched_getaffinity(0)))
    (finding,) = judge(dict.fromkeys(range(2), facts))
    assert finding.severity is Severity.WARNING
    assert ("one core" in finding.title) == (facts.core_count > 1)


def test_this_machine_is_fine() -> None:
    facts = msgspec.structs.replace(probe(context_with()), threads=1)
    assert judge(dict.fromkeys(range(8), facts)) == []
