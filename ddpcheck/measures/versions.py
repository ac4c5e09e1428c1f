"""Versions as numbers that can be compared."""

from __future__ import annotations

import re

Version = tuple[int, ...]


def version(text: str) -> Version:
    """Return the numbers of '2.28.9-1' or '2.13.0+cpu'; () when there is none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
