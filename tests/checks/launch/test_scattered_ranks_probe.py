import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from contexts import context_with

from ddpcheck.check import Meeting, Skip
from ddpcheck.checks.launch.scattered_ranks import judge, probe
from ddpcheck.measures.rank_process import RankProcess

THERE = "127.0.0.1:31071"
MINE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "31064"}


def test_nobody_is_looked_for_when_all_came() -> None:
    with pytest.raises(Skip, match="all ranks came"):
        probe(context_with(environ=MINE, world_size=2))


@pytest.fixture
def rank_one() -> Iterator[subprocess.Popen[bytes]]:
    environ = {**os.environ, **MINE, "RANK": "1", "MASTER_PORT": "31071"}
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", "ddpcheck"]
    with subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_a_real_process_of_this_host_is_found(rank_one: subprocess.Popen[bytes]) -> None:
    facts = probe(context_with(environ=MINE, host="node0"))
    assert RankProcess(rank_one.pid, 1, THERE) in facts.elsewhere
    (finding,) = judge({0: facts})
    assert finding.ranks == (1,)


def test_what_cannot_meet_has_not_seen_who_came() -> None:
    met = Meeting(THERE, 1.0, "no route")
    with pytest.raises(Skip, match="cannot meet"):
        probe(context_with(environ=MINE, world_size=2, meeting=met))


def test_who_was_seen_while_the_others_were_waited_for_is_found(
    rank_one: subprocess.Popen[bytes],
) -> None:
    left = RankProcess(1, 2, THERE)
    met = Meeting(THERE, 1.0, elsewhere=(left, RankProcess(rank_one.pid, 1, THERE)))
    facts = probe(context_with(environ=MINE, meeting=met))
    assert facts.elsewhere.count(left) == 1
    assert [each.pid for each in facts.elsewhere].count(rank_one.pid) == 1
