"""How many GPUs a rank would see, found out without importing torch."""

from __future__ import annotations

from collections.abc import Mapping


def visible_gpus(environ: Mapping[str, str]) -> int:
    """Return the number of GPUs that CUDA_VISIBLE_DEVICES leaves of those in the machine."""
    import pynvml  # only those that start ranks need it

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
    named: list[str] = []
    for entry in (part.strip() for part in mask.split(",")):
        if not _is_valid(entry, present) or (named and _kind(entry) != _kind(named[0])):
            break
        named.append(entry)
    # One that is named twice makes CUDA see none at all.
    return len(named) if len(set(named)) == len(named) else 0


def _is_valid(entry: str, present: int) -> bool:
    return _kind(entry) != "index" or (entry.isdecimal() and int(entry) < present)


def _kind(entry: str) -> str:
    return next((kind for kind in ("GPU-", "MIG-") if entry.startswith(kind)), "index")
