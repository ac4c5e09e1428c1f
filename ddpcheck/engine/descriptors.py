"""Which file descriptors have news."""

from __future__ import annotations

import math
import select
from collections.abc import Iterable

MS_PER_S = 1000


def with_news(descriptors: Iterable[int], timeout_s: float) -> list[int]:
    """Return those that can be read, or whose other end has gone, within ``timeout_s`` seconds.

    select() refuses descriptors from 1024 on, which a training script with that many files has.
    """
    poller = select.poll()
    for each in descriptors:
        poller.register(each, select.POLLIN)
    return [each for each, _ in poller.poll(math.ceil(max(0.0, timeout_s) * MS_PER_S))]
