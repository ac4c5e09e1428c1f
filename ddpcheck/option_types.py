"""What options of the command line take: text -> value; a ValueError means that it is none."""

from __future__ import annotations

import argparse

from ddpcheck.measures.mesh import Axis, parse_mesh

HIGHEST_PORT = 65535


def positive(text: str) -> int:
    """Return a whole number of 1 or more."""
    return _at_least(int(text), 1)


def natural(text: str) -> int:
    """Return a whole number of 0 or more."""
    return _at_least(int(text), 0)


def port(text: str) -> int:
    """Return a TCP port; 0 lets the system choose."""
    if natural(text) > HIGHEST_PORT:
        raise ValueError(text)
    return int(text)


def seconds(text: str) -> float:
    """Return a time in seconds, more than 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def percent(text: str) -> float:
    """Return a percentage below 100 as a part of 1."""
    ratio = float(text.strip().removesuffix("%")) / 100
    if not 0 <= ratio < 1:
        raise ValueError(text)
    return ratio


def mesh(text: str) -> tuple[Axis, ...]:
    """Return the axes of a device mesh, such as dp=2,tp=4."""
    try:
        return parse_mesh(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Return names and values of a text such as "cpu_offload,schedule=gpipe"; no value: true."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    return tuple(
        (name.strip().replace("-", "_"), value.strip() or "true") for name, _, value in parts
    )


def _at_least(value: int, lowest: int) -> int:
    if value < lowest:
        raise ValueError(value)
    return value
