"""The training text: bytes that every machine with Python already has."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ddpcheck.errors import TargetError

LIMIT_BYTES = 4 * 1024 * 1024
# Less than this is a mistyped file name rather than a text to learn from.
MINIMUM_BYTES = 4096


def read_text(data: str, limit_bytes: int = LIMIT_BYTES) -> Tensor:
    """Return the training text, uint8 [at most ``limit_bytes``].

    The text is the file ``data``, or the sources of Python's own standard library
    when ``data`` is empty. Raises TargetError if it is missing or too short.
    """
    files = [Path(data)] if data else standard_library()
    text = _read_up_to(files, limit_bytes)
    if len(text) < MINIMUM_BYTES:
        name = data or f"Python's standard library in {Path(os.__file__).parent}"
        raise TargetError(
            f"{name} holds {len(text)} bytes of text, fewer than {MINIMUM_BYTES}: "
            "name a larger file with --data"
        )
    return torch.frombuffer(text, dtype=torch.uint8)


def standard_library() -> list[Path]:
    """Return the top-level source files of the standard library, in order of their names."""
    return sorted(Path(os.__file__).parent.glob("*.py"))


class TextBlocks(Dataset[Tensor]):
    """A text, uint8 [n], cut into blocks that do not overlap: int64 [block + 1] each.

    The one byte more than ``block`` is there because every byte but the first is the
    answer to the ones before it. A rest shorter than a block is left out.
    """

    def __init__(self, text: Tensor, block: int) -> None:
        size = block + 1
        self._blocks = text[: len(text) // size * size].view(-1, size)

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, index: int) -> Tensor:
        return self._blocks[index].long()


def _read_up_to(files: Sequence[Path], limit_bytes: int) -> bytearray:
    text = bytearray()
    for file in files:
        try:
            with file.open("rb") as stream:
                text += stream.read(limit_bytes - len(text))
        except OSError as error:
            raise TargetError(
                f"cannot read the training text {file}: {error.strerror}; name a file with --data"
            ) from error
    return text
