"""On which GPUs this process holds a CUDA context, as the driver sees it."""

from __future__ import annotations

import os

import pynvml
import torch


def contexts_elsewhere(device: str) -> list[str]:
    """Return the UUIDs of other GPUs than ``device`` on which this process holds memory.

    Empty when the driver does not show this process on its own GPU either: inside a PID
    namespace it knows processes by other numbers, and nothing can be said.
    """
    if device == "cpu":
        return []
    own = _uuid(device)
    pynvml.nvmlInit()
    holders = dict(map(_holders, range(pynvml.nvmlDeviceGetCount())))
    if os.getpid() not in holders.get(own, set()):
        return []
    return [uuid for uuid, pids in holders.items() if uuid != own and os.getpid() in pids]


def _uuid(device: str) -> str:
    return f"GPU-{torch.cuda.get_device_properties(device).uuid}"


def _holders(index: int) -> tuple[str, set[int]]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    running = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return str(pynvml.nvmlDeviceGetUUID(handle)), {process.pid for process in running}
