"""Tensors that went into an all_gather, and whether their gradients came back."""

from __future__ import annotations

import msgspec

from ddpcheck.finding import Location


class Gather(msgspec.Struct, frozen=True):
    """The ``number``th gather of a line in each step: in how many it was ``followed``, and ``cut``.

    That is, no gradient came back. ``shape`` went in, made with ``parameter`` among others.
    ``constant`` is in how many the loss computed with the copy that came out.
    """

    location: Location | None
    number: int
    followed: int = 0
    cut: int = 0
    shape: tuple[int, ...] = ()
    parameter: str = ""
    constant: int = 0
