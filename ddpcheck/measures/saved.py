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
        found = keys <= value.keys()
    elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_COUNT:
        inner, found = list(value), False
    else:
        return False
    return found or (depth > 0 and any(has_state(each, keys, depth - 1) for each in inner))
