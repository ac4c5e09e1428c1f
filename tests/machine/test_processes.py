import os

from ddpcheck.machine.processes import own_pids


def test_parents_belong_to_the_run() -> None:
    assert own_pids()[:2] == (os.getpid(), os.getppid())
