import time
from itertools import count

from ddpcheck.network.polling import wait_until


def test_what_is_so_is_seen_at_once() -> None:
    assert wait_until(lambda: True, 0.0)


def test_what_becomes_so_is_seen() -> None:
    looks = count()
    assert wait_until(lambda: next(looks) == 3, 10.0)


def test_what_never_becomes_so_is_given_up_in_time() -> None:
    begin = time.monotonic()
    assert not wait_until(lambda: False, 0.05)
    assert 0.05 <= time.monotonic() - begin < 5.0
