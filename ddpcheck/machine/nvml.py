"""How the NVIDIA driver is asked about a GPU: through NVML.

Only who asks imports this: pynvml is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import takewhile
from typing import Any

import psutil
import pynvml

from ddpcheck.machine.gpu import SWITCH, Gpu, Link, Memory, Peer, Process, Speed
from ddpcheck.machine.pci import pci_address

PYNVML: Any = pynvml  # its classes of errors are made at run time
OUT_OF_ORDER = (PYNVML.NVMLError_GpuIsLost, PYNVML.NVMLError_ResetRequired)
NOT_HERE = (PYNVML.NVMLError_NotFound, PYNVML.NVMLError_InvalidArgument)
# Indices of nvmlDeviceGetP2PStatus; pynvml's own constant for the first one is a tuple.
P2P_READ = 0
P2P_NVLINK = 2
# One link in one direction: 14 (A6000) to 50 (NVLink 5). Anything else is in another unit.
PLAUSIBLE_GBPS = (5.0, 200.0)
NVLINK_SPEED_OF_ALL = pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON
# Source: NVML API Reference, nvmlDeviceGpuRecoveryAction_t.
RECOVERY_ACTIONS = {
    0: "none",
    1: "GPU reset",
    2: "node reboot",
    3: "drain peer-to-peer",
    4: "drain and reset",
}
# Source: NVML API Reference, nvmlClocksEventReasons.
SLOWDOWNS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


def read_gpu(uuid: str, nvml: Any = PYNVML) -> Gpu | str:
    """Return what NVML tells of the GPU with this UUID, or why it tells nothing."""
    bare = _bare(uuid)
    try:
        nvml.nvmlInit()
        return _read(_handle(bare, nvml), nvml)
    except OUT_OF_ORDER as error:
        return Gpu(f"GPU-{bare}", fault=str(error))
    except pynvml.NVMLError as error:
        return f"NVML: {error}"


def read_speed(uuid: str, nvml: Any = PYNVML) -> Speed:
    """Return how fast the GPU with this UUID runs just now; what NVML does not tell is None."""
    try:
        nvml.nvmlInit()
        return _speed(_handle(uuid.removeprefix("GPU-").removeprefix("MIG-"), nvml), nvml)
    except pynvml.NVMLError:
        return Speed()


def read_generation(uuid: str, nvml: Any = PYNVML) -> tuple[int, int] | None:
    """Return the PCI Express generation of the GPU's link now, and the best for both its ends.

    A link that has nothing to do may have gone down to the first one.
    """
    try:
        nvml.nvmlInit()
        handle = _handle(_bare(uuid), nvml)
        now = int(nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle))
        return now, int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    except pynvml.NVMLError:
        return None


def _bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").removeprefix("MIG-")


def _handle(uuid: str, nvml: Any) -> Any:
    try:
        return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except NOT_HERE:
        # A slice of a GPU; which of the two UUIDs torch tells depends on the CUDA version.
        part = nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")
        return nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(part)


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """Return the answer, or None where the driver has none."""
    try:
        return question(*about)
    except OUT_OF_ORDER:
        raise
    except pynvml.NVMLError:
        return None


def _read(handle: Any, nvml: Any) -> Gpu:
    uuid = str(nvml.nvmlDeviceGetUUID(handle))
    bus = _ask(nvml.nvmlDeviceGetPciInfo, handle)
    mig = _ask(nvml.nvmlDeviceGetMigMode, handle)
    total, used = _space(handle, nvml)
    return Gpu(
        uuid=uuid,
        name=str(_ask(nvml.nvmlDeviceGetName, handle) or ""),
        pci=pci_address(str(bus.busId)) if bus else "",
        mig=None if mig is None else bool(mig[0]),
        compute_mode=COMPUTE_MODES.get(_ask(nvml.nvmlDeviceGetComputeMode, handle)),
        recovery=_recovery(handle, nvml),
        memory=_memory(handle, nvml),
        speed=_speed(handle, nvml),
        pcie_width=_ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
        pcie_max_width=_ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        links=tuple(_links(handle, nvml)),
        peers=tuple(_peers(handle, uuid, nvml)),
        processes=_processes(handle, nvml),
        total_bytes=total,
        used_bytes=used,
    )


def _recovery(handle: Any, nvml: Any) -> str | None:
    action_field = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    fields = _ask(nvml.nvmlDeviceGetFieldValues, handle, action_field)
    if fields is None or fields[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    action = int(fields[0].value.uiVal)
    return RECOVERY_ACTIONS.get(action, f"action {action}")


def _memory(handle: Any, nvml: Any) -> Memory:
    def errors(kind: int, counter: int) -> int | None:
        answer: int | None = _ask(nvml.nvmlDeviceGetTotalEccErrors, handle, kind, counter)
        return answer

    _, remapped, pending, failed = _ask(nvml.nvmlDeviceGetRemappedRows, handle) or (None,) * 4
    if pending is None:  # before Ampere, pages were retired where rows are remapped today
        pending = _ask(nvml.nvmlDeviceGetRetiredPagesPendingStatus, handle)
    uncorrected = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    return Memory(
        corrected=errors(pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC),
        uncorrected=errors(uncorrected, pynvml.NVML_VOLATILE_ECC),
        uncorrected_ever=errors(uncorrected, pynvml.NVML_AGGREGATE_ECC),
        rows_remapped=remapped,
        remap_pending=None if pending is None else bool(pending),
        remap_failed=None if failed is None else bool(failed),
    )


def _speed(handle: Any, nvml: Any) -> Speed:
    bits = _ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if bits is None:  # drivers before 535 know it by its old name
        bits = _ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    clock = pynvml.NVML_CLOCK_SM
    return Speed(
        slowdowns=None if bits is None else tuple(n for bit, n in SLOWDOWNS.items() if bits & bit),
        temperature_c=_ask(nvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        clock_mhz=_ask(nvml.nvmlDeviceGetClockInfo, handle, clock),
        max_clock_mhz=_ask(nvml.nvmlDeviceGetMaxClockInfo, handle, clock),
        set_clock_mhz=_ask(nvml.nvmlDeviceGetApplicationsClock, handle, clock),
        default_clock_mhz=_ask(nvml.nvmlDeviceGetDefaultApplicationsClock, handle, clock),
        power_limit_mw=_ask(nvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        default_power_limit_mw=_ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit, handle),
    )


def _links(handle: Any, nvml: Any) -> Iterator[Link]:
    numbers = range(pynvml.NVML_NVLINK_MAX_LINKS)
    states = (_ask(nvml.nvmlDeviceGetNvLinkState, handle, link) for link in numbers)
    for link, state in enumerate(takewhile(lambda state: state is not None, states)):
        recovery = pynvml.NVML_NVLINK_ERROR_DL_RECOVERY
        yield Link(
            active=bool(state),
            remote=_remote(handle, link, nvml) if state else "",
            recoveries=_ask(nvml.nvmlDeviceGetNvLinkErrorCounter, handle, link, recovery),
            gbps=_link_gbps(handle, link, nvml) if state else None,
        )


def _link_gbps(handle: Any, link: int, nvml: Any) -> float | None:
    """Return what nvidia-smi nvlink -s shows; drivers tell MB/s."""
    # Drivers of NVLink 5 know the speed of each link, older ones one for all.
    for asked in ((pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, link), NVLINK_SPEED_OF_ALL):
        fields = _ask(nvml.nvmlDeviceGetFieldValues, handle, [asked])
        if fields is not None and fields[0].nvmlReturn == pynvml.NVML_SUCCESS:
            gbps = int(fields[0].value.uiVal) / 1000
            if PLAUSIBLE_GBPS[0] <= gbps <= PLAUSIBLE_GBPS[1]:
                return gbps
    return None


def _remote(handle: Any, link: int, nvml: Any) -> str:
    kind = _ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
    if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return SWITCH
    bus = _ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return pci_address(str(bus.busId)) if bus else ""


def _peers(handle: Any, own: str, nvml: Any) -> Iterator[Peer]:
    for index in range(_ask(nvml.nvmlDeviceGetCount) or 0):
        other = _ask(nvml.nvmlDeviceGetHandleByIndex, index)
        uuid = str(_ask(nvml.nvmlDeviceGetUUID, other) or "") if other is not None else ""
        if uuid not in {"", own}:
            yield Peer(
                uuid,
                topology=_ask(nvml.nvmlDeviceGetTopologyCommonAncestor, handle, other),
                read=_ask(nvml.nvmlDeviceGetP2PStatus, handle, other, P2P_READ),
                nvlink=_ask(nvml.nvmlDeviceGetP2PStatus, handle, other, P2P_NVLINK),
            )


def _processes(handle: Any, nvml: Any) -> tuple[Process, ...] | None:
    computing = _ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    drawing = _ask(nvml.nvmlDeviceGetGraphicsRunningProcesses, handle) or []
    if computing is None:
        return None
    graphical = {each.pid for each in drawing}
    known = {each.pid: each.usedGpuMemory for each in (*drawing, *computing)}
    return tuple(Process(pid, _name(pid), used, pid in graphical) for pid, used in known.items())


def _name(pid: int) -> str:
    with suppress(psutil.Error):
        return psutil.Process(pid).name()
    return ""


def _space(handle: Any, nvml: Any) -> tuple[int | None, int | None]:
    # The second version leaves out of 'used' what the driver keeps for itself.
    memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    memory = memory or _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    return (int(memory.total), int(memory.used)) if memory else (None, None)
