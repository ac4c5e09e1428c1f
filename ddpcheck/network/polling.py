"""Waiting for what nobody announces, within a bound."""

import time
from collections.abc import Callable

# The first look comes soon, for what is nearly there; a thousand ranks must not busy one store.
FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2


def wait_until(is_so: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether it became so in time; looks at once, and then ever less often."""
    end = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while not is_so():
        left_s = end - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    return True
