"""Wrong values that a device gave: of a matrix product, or read back from its memory."""

from __future__ import annotations

import msgspec


class WrongProduct(msgspec.Struct, frozen=True):
    """The first wrong element of a product, values as texts (NaN is one), and how many are wrong."""

    dtype: str
    factors: str
    row: int
    column: int
    expected: str
    got: str
    elements: int


class WrongMemory(msgspec.Struct, frozen=True):
    """The first wrong word of 8 bytes in the memory that was tried, and how many are wrong.

    ``offset_bytes`` counts from the begin of what was allocated for the trial.
    """

    pattern: str
    offset_bytes: int
    expected: int
    got: int
    words: int

    @property
    def flipped_bits(self) -> tuple[int, ...]:
        """Return which of the 64 bits differ, 0 for the lowest."""
        return tuple(bit for bit in range(64) if (self.expected ^ self.got) >> bit & 1)
