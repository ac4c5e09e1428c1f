"""How many batches a loader has, without running code of the user's to know it.

A ``__len__`` of a sampler or loader of the user's may do anything, call a collective even: who only
looks on must not call it, neither at another time than the script nor more often.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

from torch.utils.data import IterableDataset

from ddpcheck.watch.callsite import is_users


def batches_in(loader: Any) -> int | None:
    """Return how many batches it gives this rank in an epoch; None where only the user knows."""
    batches, samples = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    streams = isinstance(getattr(loader, "dataset", None), IterableDataset)
    parts = (loader, batches, samples, getattr(batches, "sampler", None))
    if streams or any(_is_users_length(each) for each in parts):
        return None
    with suppress(Exception):
        return len(loader)
    return None


def _is_users_length(part: Any) -> bool:
    own = getattr(type(part), "__len__", None)
    code = getattr(inspect.unwrap(own), "__code__", None) if own is not None else None
    return code is not None and is_users(code.co_filename)
