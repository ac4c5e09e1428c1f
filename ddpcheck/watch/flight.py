"""What torch's Flight Recorder has of the world group's collectives; it is on where it exists."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d

from ddpcheck.measures.testimony import Call

# The names that torch's versions gave to the recorder's size; each reads its own.
SIZE_VARIABLES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")
KEPT_CALLS = 64
SHORT_DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16"}


def switch_on(environ: MutableMapping[str, str]) -> None:
    """Ask for the recorder, which torch reads when a group is made, unless the user has."""
    if not any(name in environ for name in SIZE_VARIABLES):
        newest = hasattr(_distributed_c10d, DUMPS[0])
        environ[SIZE_VARIABLES[0] if newest else SIZE_VARIABLES[1]] = "2000"


def recorded_calls() -> tuple[tuple[Call, ...], str]:
    """Return the last collectives on the world group, and the backend of all, '' where that is not one.

    There are none where there is no recorder.
    """
    worlds = [each for each in _entries() if _is_worlds(each)]
    names = {str(each.get("profiling_name", "")).partition(":")[0] for each in worlds}
    return tuple(map(_call, worlds))[-KEPT_CALLS:], names.pop() if len(names) == 1 else ""


def pending_call() -> tuple[int, str]:
    """Return which recorded call, of any group, is the first that is not done, and what it is.

    A device carries out the calls of one group in order; (-1, "") where none is pending.
    """
    pending = (each for each in _entries() if not _is_done(each))
    first = next(pending, None)
    return (-1, "") if first is None else (int(first.get("record_id", 0)), _call(first).what)


def _entries() -> list[dict[str, Any]]:
    # NCCL's recorder and that of the other backends are two.
    return next((entries for name in DUMPS if (entries := _dumped(name))), [])


def _dumped(name: str) -> list[dict[str, Any]]:
    dump = getattr(_distributed_c10d, name, None)
    with suppress(RuntimeError, ValueError, TypeError):
        return list(json.loads(dump(True, False)).get("entries") or []) if dump else []
    return []


def _is_worlds(entry: dict[str, Any]) -> bool:
    return not entry.get("is_p2p") and "default_pg" in entry.get("process_group", ())


def _is_done(entry: dict[str, Any]) -> bool:
    return bool(entry.get("retired")) or entry.get("state") == "completed"


def _call(entry: dict[str, Any]) -> Call:
    name = str(entry.get("profiling_name", "")).partition(":")[2]
    sizes = entry.get("input_sizes") or [[]]
    dtypes = entry.get("input_dtypes") or [""]
    shown = f"{SHORT_DTYPES.get(dtypes[0], dtypes[0].lower())}{list(sizes[0])}"
    number = int(entry.get("collective_seq_id", 0))
    return Call(number, f"{name} {shown}".strip(), done=_is_done(entry))


def sequence_number() -> int:
    """Return how many collectives the world group has counted; 0 where it does not say."""
    count = getattr(dist.group.WORLD, "_get_sequence_number_for_group", None)
    with suppress(RuntimeError):
        return int(count()) if count is not None else 0
    return 0
