"""JSON for facts and reports: nothing that a training can contain makes it unreadable.

JSON has no NaN and no lone surrogates, but a diverged model has the one, and a command line
that is not UTF-8 the other. Non-finite numbers are written as "nan", "inf" and "-inf", which
``decode`` reads as numbers again where a number is meant; surrogates as escapes.
"""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
NUMBERS = re.compile(rb"\[\n[-+.0-9eE,\s]*\]")


def encode(value: object) -> bytes:
    """Return ``value`` as compact JSON."""
    return msgspec.json.encode(_speakable(msgspec.to_builtins(value)))


def decode(text: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Return what ``encode`` wrote; raises msgspec.DecodeError for anything else."""
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"neither UTF-8 nor of a sane depth: {error}") from error


def indented(value: object) -> bytes:
    """Return ``value`` as JSON for people, lists of numbers on one line, ending with a newline."""
    text = msgspec.json.format(encode(value), indent=1)
    # No string has a line break in it: what is matched is always a list.
    return NUMBERS.sub(lambda found: b"".join(found[0].split()), text) + b"\n"


def in_order(text: bytes) -> bytes:
    """Return the same JSON with its keys in order: equal values are equal texts."""
    return msgspec.json.encode(msgspec.json.decode(text), order="deterministic")


def _speakable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_speakable(key): _speakable(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_speakable(member) for member in value]
    return value
