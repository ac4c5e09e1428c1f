"""How many GPUs the CUDA driver shows to this process, which torch may not know."""

from __future__ import annotations

import ctypes


def gpus_in_driver(library: str = "libcuda.so.1") -> int | None:
    """Return the number of GPUs; None without a driver, or before its first use.

    It is what CUDA_VISIBLE_DEVICES left at that first use. torch.cuda.device_count() of torch 2.11
    follows the variable for ever, though CUDA does not.
    Source: CUDA Driver API, cuDeviceGetCount.
    """
    count = ctypes.c_int()
    try:
        status = ctypes.CDLL(library).cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return None
    return count.value if status == 0 else None
