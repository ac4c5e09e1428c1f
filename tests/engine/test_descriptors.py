"""What waits for descriptors does so however many files the process has open."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ddpcheck.engine.descriptors import with_news
from ddpcheck.engine.neighbours import HeldProcess
from ddpcheck.measures.testimony import State

# The first number that select() does not take.
BEYOND = 1024


@pytest.fixture
def crowded() -> Iterator[None]:
    """Have all descriptors below the limit of select() taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BEYOND), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] < BEYOND:
        taken.append(os.dup(taken[0]))
    yield
    for each in taken:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("crowded")
def test_a_process_is_seen_to_live_and_to_have_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        held = HeldProcess(process.pid)
        assert held.open()
        assert (held.descriptor or 0) > BEYOND
        before = held.state
        process.kill()
        assert with_news([held.descriptor or 0], 10.0) == [held.descriptor]
        assert (before, held.state) == (State.SILENT, State.GONE)
        held.close()


@pytest.mark.usefixtures("crowded")
def test_news_are_of_those_that_have_some() -> None:
    reader, writer = os.pipe()
    quiet, other = os.pipe()
    assert with_news([reader, quiet], 0.0) == []
    os.write(writer, b"x")
    assert with_news([reader, quiet], 10.0) == [reader]
    os.close(other)  # whose end has gone: reading says so at once
    assert with_news([quiet], 10.0) == [quiet]
    for each in (reader, writer, quiet):
        os.close(each)
