"""Patterns written to a GPU's memory, and read back."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ddpcheck.measures.wrong_values import WrongMemory

WORD_BYTES = 8
# Much more than a cache holds lies between writing a piece and reading it back.
PIECE_BYTES = 64 * 2**20
# A bit that sticks shows under a pattern or its complement; a wrong address line under the third,
# where each word tells its place. Odd factor: golden ratio * 2**64, it sets about half the bits.
PATTERNS = {"0101": 0x5555555555555555, "1010": -0x5555555555555556}
ADDRESS = "address"
SPREAD = -0x61C8864680B583EB


def wrong_memory(device: str, size_bytes: int, rounds: int) -> list[WrongMemory]:
    """Return the first wrong word of each pattern that does not come back from this memory.

    Raises torch's OutOfMemoryError when there is no such space.
    """
    words = size_bytes // WORD_BYTES
    memory = torch.empty(words, dtype=torch.int64, device=device)
    found: list[WrongMemory] = []
    for _ in range(rounds):
        for pattern in (*PATTERNS, ADDRESS):
            for start, piece in _pieces(memory):
                piece.copy_(pattern_from(pattern, start, piece))
            found += first_wrong(memory, pattern)
    return found


def _pieces(memory: Tensor) -> Iterator[tuple[int, Tensor]]:
    size = PIECE_BYTES // WORD_BYTES
    for start in range(0, len(memory), size):
        yield start, memory[start : start + size]


def pattern_from(pattern: str, start: int, like: Tensor) -> Tensor:
    """Return what belongs into a piece of memory that begins with the word ``start``."""
    if pattern in PATTERNS:
        return torch.full_like(like, PATTERNS[pattern])
    return torch.arange(start, start + len(like), device=like.device).mul_(SPREAD)


def first_wrong(memory: Tensor, pattern: str) -> list[WrongMemory]:
    """Return nothing, or one record of memory that holds a pattern; the GPU is waited for once only when all is well."""
    wrong = [
        (pattern_from(pattern, start, piece) != piece).sum() for start, piece in _pieces(memory)
    ]
    counts: list[int] = torch.stack(wrong).tolist()
    for count, (start, piece) in zip(counts, _pieces(memory), strict=True):
        if count:
            expected = pattern_from(pattern, start, piece)
            # Read once more: an error on the way, not in the memory, may be gone by now.
            at = int(torch.argmax((expected != piece).byte()))
            return [
                WrongMemory(
                    pattern=pattern,
                    offset_bytes=(start + at) * WORD_BYTES,
                    expected=int(expected[at]) % 2**64,
                    got=int(piece[at]) % 2**64,
                    words=sum(counts),
                )
            ]
    return []
