"""How many GPUs a rank would see, found out without importing torch."""

from __future__ import annotations

from collections.abc import Mapping

import pynvml


def visible_gpus(environ: Mapping[str, str]) -> int:
    """Return the number of GPUs that CUDA_VISIBLE_DEVICES leaves of those in the machine."""
    try:
        pynvml.nvmlInit()
        present: int = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return 0
    return visible_of(present, environ.get("CUDA_VISIBLE_DEVICES"))


def visible_of(present: int, mask: str | None) -> int:
    """Return how many of ``present`` GPUs the mask leaves.

    As CUDA reads it: a list of indices or UUIDs that ends at the first invalid entry.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    if mask is None:
        return present
    count = 0
    for entry in (part.strip() for part in mask.split(",")):
        if entry.startswith(("GPU-", "MIG-")) or (entry.isdecimal() and int(entry) < present):
            count += 1
        else:
            break
    return count
