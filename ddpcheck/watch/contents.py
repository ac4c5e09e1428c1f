"""What a dataset is made of, as far as that can be told without its code: the same on two ranks, or not.

Its attributes, and theirs in turn: numbers by some of the elements, names by themselves. What holds
anything else (an open file, a table of another library's) may be a rank's own, and tells nothing.
"""

from __future__ import annotations

import random
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np
import torch

from ddpcheck.measures.digests import short_digest
from ddpcheck.watch.subsets import SCATTERING

# Of each tensor, array and list so many elements, so many of all, and attributes of attributes.
KEPT_ELEMENTS = 512
KEPT_COUNT = 100_000
KEPT_BYTES = 2**30
KEPT_DEPTH = 24
PLAIN = {type(None), bool, int, float, str, bytes, range, torch.dtype, torch.Size, torch.device}
MAPPINGS = {dict, OrderedDict, defaultdict, Counter}
# What they draw is the rank's own, and none of what they draw for.
GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


class Unknown(Exception):  # noqa: N818 - it is no error that there is no more to say
    """Something may be anything."""


def content_of(dataset: Any) -> str:
    """Return the same text for a dataset of the same content, '' where that is not known."""
    try:
        told = list(islice(_told(dataset, KEPT_DEPTH), KEPT_COUNT))
    except Unknown:
        return ""
    return short_digest("|".join(told)) if len(told) < KEPT_COUNT else ""


def _told(value: Any, depth: int) -> Iterator[str]:
    """Yield what there is; raises Unknown."""
    kind = type(value)
    if not depth:
        raise Unknown
    if kind in PLAIN or isinstance(value, PurePath | np.generic):
        yield repr(value)
    elif kind is torch.Tensor or kind is np.ndarray:
        yield _of_numbers(value)
    elif isinstance(value, type) or _is_bare_function(value):
        yield f"{value.__module__}.{value.__qualname__}"
    elif isinstance(value, Enum):
        yield str(value.value)
    else:
        yield kind.__qualname__
        for part in _parts(value):
            yield from _told(part, depth - 1)


def _parts(value: Any) -> Iterable[Any]:
    kind = type(value)
    if isinstance(value, GENERATORS):
        return ()
    if kind is list or kind is tuple:
        return [len(value), *_some(value)]
    if kind in {set, frozenset} and {type(each) for each in value} <= PLAIN:
        return [len(value), *_some(sorted(value, key=repr))]
    if kind in MAPPINGS:
        return [len(value), *_some(list(value.items()))]
    if kind is partial:
        return value.func, value.args, value.keywords
    # What is made in another way than Python's own classes has more to it than attributes.
    if getattr(kind, "__new__", None) is not object.__new__ or not hasattr(value, "__dict__"):
        raise Unknown
    return sorted(vars(value).items())


def _is_bare_function(value: Any) -> bool:
    """Return whether it is a function that holds nothing: a transform, say."""
    is_function = isinstance(value, FunctionType)
    return is_function and not (value.__closure__ or value.__defaults__ or value.__kwdefaults__)


def _some(values: Sequence[Any]) -> Sequence[Any]:
    return values[:: max(1, len(values) // KEPT_ELEMENTS)]


def _of_numbers(values: Any) -> str:
    is_tensor = isinstance(values, torch.Tensor)
    is_here = not is_tensor or (values.device.type == "cpu" and values.layout is torch.strided)
    # What is larger may be mapped from a file, which nobody is to read for this.
    if not is_here or str(values.dtype) == "object" or values.nbytes > KEPT_BYTES:
        raise Unknown
    flat = (values.detach() if is_tensor else values).reshape(-1)
    # Evenly spread ones might all be the corners of images.
    places = [at * SCATTERING % len(flat) for at in range(min(KEPT_ELEMENTS, len(flat)))]
    return f"{values.dtype}{tuple(values.shape)}{flat[places].tolist()}"
