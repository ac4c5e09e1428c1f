"""What each step of an optimizer takes."""

from __future__ import annotations

import msgspec


class Passes(msgspec.Struct, frozen=True, array_like=True):
    """What came before one step: batches, forward and backward passes, and those that DDP averaged.

    ``left_out`` are forward passes of which no backward pass came, that was to be averaged, and does
    come of others from the same lines.
    """

    batches: int = 0
    forward: int = 0
    backward: int = 0
    averaged: int = 0
    left_out: int = 0
