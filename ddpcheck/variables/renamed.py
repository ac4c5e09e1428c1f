"""What became of variables that got another name, or none: who still honours the old one.

Sources: the NCCL user guide, "Environment Variables", and NCCL's sources tag by tag; the lists of
names in torch's ProcessGroupNCCL.hpp, the first of which is the present one; AllocatorConfig.h.
"""

import msgspec

from ddpcheck.measures.versions import version
from ddpcheck.variables.registry import VARIABLES

# A line is: the old name, what replaces it, who reads it, and the version since when it is
# "honoured" or "ignored".
TABLE = """
NCCL_BLOCKING_WAIT | TORCH_NCCL_BLOCKING_WAIT | torch 2.2 | honoured
NCCL_ASYNC_ERROR_HANDLING | TORCH_NCCL_ASYNC_ERROR_HANDLING | torch 2.2 | honoured
NCCL_DESYNC_DEBUG | TORCH_NCCL_DESYNC_DEBUG | torch 2.2 | honoured
NCCL_ENABLE_TIMING | TORCH_NCCL_ENABLE_TIMING | torch 2.2 | honoured
NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK | TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK \
| torch 2.2 | honoured
NCCL_USE_COMM_NONBLOCKING | TORCH_NCCL_USE_COMM_NONBLOCKING | torch 2.2 | ignored
NCCL_NONBLOCKING_TIMEOUT | TORCH_NCCL_NONBLOCKING_TIMEOUT | torch 2.2 | ignored
PYTORCH_CUDA_ALLOC_CONF | PYTORCH_ALLOC_CONF | torch 2.9 | honoured
PYTORCH_HIP_ALLOC_CONF | PYTORCH_ALLOC_CONF | torch 2.9 | honoured
NCCL_IB_GDR_LEVEL | NCCL_NET_GDR_LEVEL | nccl 2.4 | ignored
NCCL_IB_CUDA_SUPPORT | NCCL_NET_GDR_LEVEL | nccl 2.4 | ignored
NCCL_MAX_NRINGS | NCCL_MAX_CTAS | nccl 2.5 | honoured
NCCL_MIN_NRINGS | NCCL_MIN_CTAS | nccl 2.5 | honoured
NCCL_MAX_NCHANNELS | NCCL_MAX_CTAS | nccl 2.17 | honoured
NCCL_MIN_NCHANNELS | NCCL_MIN_CTAS | nccl 2.17 | honoured
NCCL_THREAD_THRESHOLD | NCCL_THREAD_THRESHOLDS | nccl 2.5 | ignored
NCCL_MNNVL | NCCL_MNNVL_ENABLE | nccl 2.21 | ignored
NCCL_WORK_FIFO_DEPTH | NCCL_WORK_FIFO_BYTES | nccl 2.22 | ignored
NCCL_CHECK_POINTERS | NCCL_CHECK_MODE | nccl 2.29.7 | honoured
"""


class Fate(msgspec.Struct, frozen=True):
    """What a version makes of a variable: ``new`` replaces it, ``since`` is when that began."""

    is_ignored: bool
    new: str
    since: str


class _Renaming(msgspec.Struct, frozen=True):
    new: str
    reader: str
    since: str
    is_ignored: bool


def _read(line: str) -> tuple[str, _Renaming]:
    old, new, begin, fate = (part.strip() for part in line.split("|"))
    reader, since = begin.split()
    return old, _Renaming(new, reader, since, fate == "ignored")


RENAMINGS = dict(map(_read, TABLE.strip().splitlines()))
READERS = {"nccl": "NCCL", "torch": "torch"}


def fate(name: str, versions: dict[str, str]) -> Fate | None:
    """Return what the versions make of a variable; None when they read it, or are not told."""
    if (renaming := RENAMINGS.get(name)) is not None:
        own = version(versions.get(renaming.reader, ""))
        if not own or own < version(renaming.since):
            return None
        told = f"{READERS[renaming.reader]} {renaming.since}"
        return Fate(renaming.is_ignored, renaming.new, f"since {told}")
    return _by_age(name, versions)


def _by_age(name: str, versions: dict[str, str]) -> Fate | None:
    variable = VARIABLES.get(name)
    own = version(versions.get(variable.reader, "")) if variable else ()
    if variable is None or not own:
        return None
    label = READERS[variable.reader]
    if variable.until and own >= version(variable.until):
        return Fate(is_ignored=True, new="", since=f"since {label} {variable.until}")
    if variable.since and own < version(variable.since):
        return Fate(is_ignored=True, new="", since=f"before {label} {variable.since}")
    return None
