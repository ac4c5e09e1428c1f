"""The tensors and arrays in objects of any kind, and who calls collectives of objects."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch
from torch.distributed import c10d_logger, distributed_c10d

import ddpcheck
from ddpcheck.machine.files import text_of

# Smaller ones cost nobody anything.
LEAST_BYTES = 2**20
# More values than that are not looked through: the script would wait for it, a tenth of a second.
LOOKED_AT_COUNT = 100_000
# The place of a file's number in a line of /proc/self/maps, 0 for none.
INODE = 4
# Others, such as DTensor, have no memory of their own to ask for.
PLAIN = (torch.Tensor, torch.nn.Parameter)
_TORCHS_OWN = str(Path(torch.__file__).parent)
_BETWEEN = (c10d_logger.__file__, str(Path(ddpcheck.__file__).parent))


def own_operation() -> str:
    """Return which collective of objects the calling thread is in, '' where torch called it.

    Distributed checkpoints, say, send their plans by such collectives.
    """
    name = ""
    for frame in _frames():
        file = frame.f_code.co_filename
        if file == distributed_c10d.__file__:
            name = frame.f_code.co_name
        elif name and not file.startswith(_BETWEEN):
            return "" if file.startswith(_TORCHS_OWN) else name
    return ""


def raw_bytes(value: Any) -> int:
    """Return how many bytes of a value are those of tensors and arrays, as pickle stores them.

    Of a part of a tensor it stores the whole memory that the part lies in.
    """
    return sum(_memories(value).values())


def own_bytes(value: Any) -> int:
    """Return how many bytes of them lie in this process's own memory: in no file, and not shared."""
    mapped = mapped_files()
    starts = [start for start, _ in mapped]

    def is_own(address: int) -> bool:
        at = bisect_right(starts, address) - 1
        return at < 0 or address >= mapped[at][1]

    memories = _memories(value, devices=("cpu",))
    return sum(size for address, size in memories.items() if is_own(address))


def mapped_files(root: Path = Path("/")) -> list[tuple[int, int]]:
    """Return where files lie in this process's memory, in order; shared memory is a file, too."""
    lines = (line.split() for line in text_of(root / "proc/self/maps").splitlines())
    spans = (line[0].partition("-") for line in lines if len(line) > INODE and line[INODE] != "0")
    return sorted((int(start, 16), int(end, 16)) for start, _, end in spans)


def _memories(value: Any, devices: tuple[str, ...] = ("cpu", "cuda")) -> dict[int, int]:
    """Return the size of each piece of memory by its address."""
    found: dict[int, int] = {}
    for part in _parts(value):
        if type(part) in PLAIN and part.layout is torch.strided and part.device.type in devices:
            storage = part.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
        elif isinstance(part, np.ndarray) and not part.dtype.hasobject:
            address = int(part.__array_interface__["data"][0])
            found[address] = max(part.nbytes, found.get(address, 0))
    return found


def _parts(value: Any) -> Iterator[Any]:
    """Yield a value and what is in it, the outer ones first."""
    waiting = deque([value])
    for _ in range(LOOKED_AT_COUNT):
        if not waiting:
            return
        part = waiting.popleft()
        yield part
        waiting.extend(islice(_inside(part), max(0, LOOKED_AT_COUNT - len(waiting))))


def _inside(part: Any) -> Iterator[Any]:
    if isinstance(part, Mapping):
        return iter(part.values())
    if isinstance(part, (list, tuple, set, frozenset)):
        return iter(part)
    is_leaf = isinstance(part, (torch.Tensor, np.ndarray, type, ModuleType))
    return iter(()) if is_leaf else iter(getattr(part, "__dict__", {}).values())


def _frames() -> Iterator[FrameType]:
    frame = inspect.currentframe()
    while frame is not None:
        yield frame
        frame = frame.f_back
