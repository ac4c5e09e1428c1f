"""A rank's look at the process above it: what is a silence, and what is none."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from ddpcheck.engine.agents import BEAT_S, AgentAbove, look_above
from ddpcheck.launch.elastic import RUN_ID
from ddpcheck.measures.testimony import Agent, Silence


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as started:
        yield started
        started.kill()


def wait_for_status(process: subprocess.Popen[bytes], status: str) -> None:
    while psutil.Process(process.pid).status() != status:
        pass


def test_an_agent_that_is_stopped_for_long_is_silent_and_told_of_once(
    process: subprocess.Popen[bytes],
) -> None:
    told: list[Agent] = []
    above = AgentAbove(Agent(host="node0", pid=process.pid), told.append)
    above.look(1.0)
    assert above.silent is None
    process.send_signal(signal.SIGSTOP)
    wait_for_status(process, psutil.STATUS_STOPPED)
    above.look(1.0)
    above.look(BEAT_S - 1.0)
    assert above.silent is None, "as short as a debugger's look"
    above.look(1.0)
    above.look(1.0)
    assert above.silent is not None
    assert (above.silent.silence, above.silent.silent_s) == (Silence.STOPPED, BEAT_S + 1.0)
    assert [each.silence for each in told] == [Silence.STOPPED]
    process.send_signal(signal.SIGCONT)
    wait_for_status(process, psutil.STATUS_SLEEPING)
    above.look(1.0)
    assert above.silent is None
    above.close()


def test_an_agent_that_has_ended_is_silent_at_once(process: subprocess.Popen[bytes]) -> None:
    above = AgentAbove(Agent(host="node0", pid=process.pid), None)
    process.kill()
    process.wait()
    above.look(0.5)
    assert above.silent is not None
    assert above.silent.silence is Silence.GONE
    above.close()


def test_where_no_agent_started_the_rank_nobody_is_looked_at() -> None:
    environ = {name: value for name, value in os.environ.items() if name != RUN_ID}
    assert look_above(environ, "node0", None) is None
