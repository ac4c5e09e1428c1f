"""What is in a value that is saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# How deep a state is looked for: {"optimizer": ...}, or a list of them.
DEPTH_COUNT = 3
LONGEST_COUNT = 100
OPTIMIZER_KEYS = frozenset({"state", "param_groups"})


def has_state(value: Any, keys: frozenset[str], depth: int = DEPTH_COUNT) -> bool:
    """Return whether a dictionary with these keys is in the value, or is it."""
    if isinstance(value, Mapping):
        inner = list(value.values())
        found = all(_has_key(value, key) for key in keys)
    elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_COUNT:
        inner, found = list(value), False
    else:
        return False
    return found or (depth > 0 and any(has_state(each, keys, depth - 1) for each in inner))


def has_weights(value: Any, depth: int = DEPTH_COUNT) -> bool:
    """Return whether tensors of floating point numbers are in the value, and not as an optimizer's."""
    if isinstance(value, Mapping):
        inner = [] if has_state(value, OPTIMIZER_KEYS, depth=0) else list(value.values())
    elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_COUNT:
        inner = list(value)
    else:
        is_floating = getattr(value, "is_floating_point", None)
        return is_floating is not None and bool(getattr(value, "ndim", 0) and is_floating())
    return depth >= 0 and any(has_weights(each, depth - 1) for each in inner)


def _has_key(value: Mapping[Any, Any], key: str) -> bool:
    """Return whether it has a key, or some that begin with it: a state may be flat."""
    return key in value or any(isinstance(e, str) and e.startswith(f"{key}.") for e in value)
