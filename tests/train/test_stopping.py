import os
import signal
import subprocess
import sys
import time

import pytest

from ddpcheck.train import stopping
from ddpcheck.train.stopping import Patience, StopRequest

LIMIT_S = 30.0


def wait_until_asked(stop: StopRequest) -> None:
    began_s = time.monotonic()
    while not stop.asked():
        assert time.monotonic() - began_s < LIMIT_S
        os.sched_yield()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_is_heard_and_does_nothing_by_itself(number: signal.Signals) -> None:
    with StopRequest() as stop:
        assert not stop.asked()
        os.kill(os.getpid(), number)
        wait_until_asked(stop)
        assert stop.asked()
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    assert signal.getsignal(number) is usual


def test_leaving_does_not_wait_for_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "LOOK_S", 2 * LIMIT_S)
    began_s = time.monotonic()
    with StopRequest():
        pass
    assert time.monotonic() - began_s < LIMIT_S


STUCK = """
import threading
from ddpcheck.train.stopping import StopRequest
with StopRequest() as stop:
    for _ in range(2):
        stop.asked()
    print("stuck", flush=True)
    threading.Barrier(2).wait()
"""


def test_a_rank_whose_step_does_not_end_leaves_by_itself() -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE) as rank:
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"stuck\n"
        rank.terminate()
        assert rank.wait(LIMIT_S) == 130


def test_a_step_is_waited_for_three_times_as_long_as_the_slowest() -> None:
    patience = Patience()
    assert not patience.is_over(1e9)
    for now_s in (0.0, 1.0, 5.0, 6.0):
        patience.step_ended(now_s)
    # Two seconds, and three times four.
    assert not patience.is_over(20.0)
    assert patience.is_over(20.1)


def test_what_is_no_step_is_waited_for_and_does_not_count() -> None:
    patience = Patience()
    for now_s in (0.0, 1.0):
        patience.step_ended(now_s)
    patience.wait_for_ever()
    assert not patience.is_over(1e9)
    patience.step_ended(1000.0)
    assert not patience.is_over(1005.0)
    assert patience.is_over(1005.1)
