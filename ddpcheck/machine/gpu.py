"""A GPU as the NVIDIA driver tells of it.

Each value is None where the driver does not know it: consumer cards count no ECC errors,
a slice of a GPU knows no clocks, an old driver lacks a question.
"""

from __future__ import annotations

from functools import cache

import msgspec

SWITCH = "switch"


class Process(msgspec.Struct, frozen=True):
    """A process that holds a context on the GPU, by the driver's PID; draws, if graphical."""

    pid: int
    name: str
    used_bytes: int | None
    graphical: bool


class Link(msgspec.Struct, frozen=True):
    """One NVLink: where it leads (a PCI address, 'switch' or ''), and times it was retrained.

    ``gbps`` is what it carries in one direction, in decimal GB/s.
    """

    active: bool
    remote: str
    recoveries: int | None
    gbps: float | None = None


class Peer(msgspec.Struct, frozen=True):
    """Another GPU of the machine: how near it is, and whether it can be read directly.

    ``topology`` is NVML's level (20 and less: only PCIe switches between, 30 and more: a
    processor); ``read`` and ``nvlink`` are NVML's peer-to-peer states, 0 for yes.
    """

    uuid: str
    topology: int | None
    read: int | None
    nvlink: int | None


class Memory(msgspec.Struct, frozen=True):
    """Errors of the GPU's memory: since the driver was loaded, and over its life."""

    corrected: int | None = None
    uncorrected: int | None = None
    uncorrected_ever: int | None = None
    rows_remapped: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None


class Speed(msgspec.Struct, frozen=True):
    """Clocks in MHz, power limits in mW, temperature in degrees Celsius, and what slows it."""

    slowdowns: tuple[str, ...] | None = None
    temperature_c: int | None = None
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    set_clock_mhz: int | None = None
    default_clock_mhz: int | None = None
    power_limit_mw: int | None = None
    default_power_limit_mw: int | None = None


class Gpu(msgspec.Struct, frozen=True):
    """One GPU; ``fault`` is the driver's word when it cannot be used at all, or ''."""

    uuid: str
    name: str = ""
    pci: str = ""
    fault: str = ""
    mig: bool | None = None
    compute_mode: str | None = None
    recovery: str | None = None
    memory: Memory = Memory()
    speed: Speed = Speed()
    pcie_width: int | None = None
    pcie_max_width: int | None = None
    links: tuple[Link, ...] = ()
    peers: tuple[Peer, ...] = ()
    processes: tuple[Process, ...] | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None


@cache
def gpu_of(device: str) -> Gpu | str:
    """Return the GPU behind a torch device as it was when first asked, or why none is known."""
    import torch

    from ddpcheck.machine.nvml import read_gpu

    return read_gpu(str(torch.cuda.get_device_properties(device).uuid))


def speed_of(device: str) -> Speed:
    """Return how fast the GPU behind a torch device runs just now; asks each time."""
    import torch

    from ddpcheck.machine.nvml import read_speed

    return read_speed(str(torch.cuda.get_device_properties(device).uuid))


def generation_of(device: str) -> tuple[int, int] | None:
    """Return the PCI Express generation of a device's link at this moment, and the best possible.

    None where the driver does not tell.
    """
    import torch

    from ddpcheck.machine.nvml import read_generation

    return read_generation(str(torch.cuda.get_device_properties(device).uuid))
