import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from contexts import context_with
from findings import judged

from ddpcheck.check import Skip
from ddpcheck.checks.environment import low_open_files
from ddpcheck.checks.environment.low_open_files import Facts, judge, probe
from ddpcheck.finding import Severity

CHECK = "environment/low-open-files"


def test_where_open_files_cannot_be_counted_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_open_files, "open_file_count", lambda: 0)
    with pytest.raises(Skip, match="open"):
        probe(context_with())


def test_a_real_low_limit() -> None:
    source = (
        "import resource, sys, msgspec\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from contexts import context_with\n"
        "from ddpcheck.checks.environment.low_open_files import probe\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))\n"
        "sys.stdout.buffer.write(msgspec.json.encode(probe(context_with())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source, str(Path(__file__).parents[2])],
        capture_output=True,
        check=True,
    )
    facts = msgspec.json.decode(done.stdout, type=Facts)
    assert (facts.soft, facts.hard) == (128, 128)
    assert 3 <= facts.open_count < 40
    assert facts.sharing == "file_descriptor"
    # Alone it does with 128; among 16 ranks it does not.
    (finding,) = judged(CHECK, dict.fromkeys(range(16), facts))
    assert (finding.id, finding.severity) == (CHECK, Severity.WARNING)
    assert finding.ranks == tuple(range(16))
    assert f"rank 0 on node0 may open 128 files and has {facts.open_count} open" in finding.message
    assert "the hard limit is 128" in finding.fix
    assert "docker run --ulimit nofile=65536" in finding.fix
    assert judged(CHECK, {0: facts}) == []


def test_the_loader_of_a_users_target_is_not_guessed_at() -> None:
    assert not probe(context_with()).loader_is_known
    assert probe(context_with(script="train.py")).loader_is_known


def test_this_process_is_within_its_limit() -> None:
    facts = probe(context_with())
    assert judge(dict.fromkeys(range(8), facts)) == []
