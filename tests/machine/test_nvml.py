"""What is read of a GPU, from a driver that is made up and from the one that is missing here."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from ddpcheck.machine.gpu import Gpu, Link, Memory, Peer, Process, Speed
from ddpcheck.machine.nvml import read_generation, read_gpu, read_speed

UUID = "GPU-55c016a6-9d7d-046b-9d59-e5f62f91ed26"
OTHER = "GPU-0b11d014-1685-04bd-26ed-5fc0bc1c44ae"
GIB = 2**30
# The values of an H200 in a host of two, idle, as nvidia-smi -q words them.
H200 = {
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId="00000000:17:00.0"),
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetRemappedRows": (0, 1, 1, 0),
    "nvmlDeviceGetCurrentClocksEventReasons": 0x48,
    "nvmlDeviceGetTemperature": 91,
    "nvmlDeviceGetClockInfo": 345,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetApplicationsClock": 1980,
    "nvmlDeviceGetDefaultApplicationsClock": 1980,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetCurrPcieLinkWidth": 8,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetNvLinkErrorCounter": 2,
    "nvmlDeviceGetCount": 2,
    "nvmlDeviceGetTopologyCommonAncestor": 50,
    "nvmlDeviceGetGraphicsRunningProcesses": [],
}


class Driver:
    """Answers like NVML: from a table, by a function, or 'Not Supported'."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.handles = {UUID: 0, OTHER: 1}

    def nvmlInit(self) -> None:  # noqa: N802
        self.fail_as("nvmlInit")

    def fail_as(self, name: str) -> None:
        if isinstance(self.answers.get(name), pynvml.NVMLError):
            raise self.answers[name]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        self.fail_as("nvmlDeviceGetHandleByUUID")
        if uuid not in self.handles:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return self.handles[uuid]

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return next(uuid for uuid, each in self.handles.items() if each == handle)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def answer(*about: Any) -> Any:
            self.fail_as(name)
            if name not in self.answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            told = self.answers[name]
            return told(*about) if callable(told) else told

        return answer


def field(value: int) -> list[Any]:
    return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=value))]


def fields(_handle: int, asked: list[Any]) -> list[Any]:
    """Answer as an H200 does: its links have 26562 MB/s each, which nvidia-smi shows as GB/s."""
    if asked == [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]:
        return field(1)
    return field(26562)


def links(_handle: int, link: int) -> int:
    if link > 2:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
    return int(link != 1)


def remote_kind(_handle: int, link: int) -> int:
    return pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH if link == 0 else 0


def peer_state(_one: int, _other: int, index: int) -> int:
    return {0: 0, 2: 5}[index]


def ecc(_handle: int, kind: int, counter: int) -> int:
    return 10 * kind + counter


def test_a_gpu_is_told_in_full() -> None:
    me = SimpleNamespace(pid=os.getpid(), usedGpuMemory=GIB)
    driver = Driver(
        **H200,
        nvmlDeviceGetTotalEccErrors=ecc,
        nvmlDeviceGetFieldValues=fields,
        nvmlDeviceGetNvLinkState=links,
        nvmlDeviceGetNvLinkRemoteDeviceType=remote_kind,
        nvmlDeviceGetNvLinkRemotePciInfo=SimpleNamespace(busId="00000000:AB:00.0"),
        nvmlDeviceGetP2PStatus=peer_state,
        nvmlDeviceGetComputeRunningProcesses=[me],
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=140 * GIB, used=GIB),
    )
    told = read_gpu(UUID, driver)
    assert isinstance(told, Gpu)
    assert told.processes is not None
    (process,) = told.processes
    assert (process.pid, process.used_bytes, process.graphical) == (os.getpid(), GIB, False)
    assert process.name
    assert told == Gpu(
        uuid=UUID,
        name="NVIDIA H200",
        pci="0000:17:00.0",
        mig=False,
        compute_mode="default",
        recovery="GPU reset",
        memory=Memory(0, 10, 11, 1, remap_pending=True, remap_failed=False),
        speed=Speed(
            ("hardware slowdown", "hardware thermal slowdown"),
            *(91, 345, 1980, 1980, 1980, 700_000, 700_000),
        ),
        pcie_width=8,
        pcie_max_width=16,
        links=(
            Link(True, "switch", 2, 26.562),
            Link(False, "", 2),
            Link(True, "0000:ab:00.0", 2, 26.562),
        ),
        peers=(Peer(OTHER, topology=50, read=0, nvlink=5),),
        processes=(process,),
        total_bytes=140 * GIB,
        used_bytes=GIB,
    )


def test_what_the_driver_does_not_know_is_none() -> None:
    assert read_gpu(UUID, Driver()) == Gpu(UUID)


def test_an_old_driver_knows_the_slowdowns_by_their_old_name() -> None:
    told = read_gpu(UUID, Driver(nvmlDeviceGetCurrentClocksThrottleReasons=0x20))
    assert isinstance(told, Gpu)
    assert told.speed.slowdowns == ("software thermal slowdown",)


def test_idle_power_capped_and_set_clocks_are_no_slowdown() -> None:
    told = read_gpu(UUID, Driver(nvmlDeviceGetCurrentClocksEventReasons=0x117))
    assert isinstance(told, Gpu)
    assert told.speed.slowdowns == ()


def test_how_fast_a_gpu_runs_is_asked_again_each_time() -> None:
    driver = Driver(**H200)
    hot = ("hardware slowdown", "hardware thermal slowdown")
    assert read_speed(UUID, driver) == Speed(hot, *(91, 345, 1980, 1980, 1980, 700_000, 700_000))
    driver.answers |= {"nvmlDeviceGetCurrentClocksEventReasons": 0, "nvmlDeviceGetClockInfo": 1980}
    assert read_speed(UUID, driver).slowdowns == ()
    assert read_speed(UUID, driver).clock_mhz == 1980


def test_a_gpu_that_is_out_of_order_tells_no_speed() -> None:
    lost = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
    assert read_speed(UUID, Driver(nvmlDeviceGetTemperature=lost)) == Speed()
    assert read_speed(OTHER.upper(), Driver()) == Speed()


def test_before_ampere_a_page_waits_for_retirement() -> None:
    told = read_gpu(UUID, Driver(nvmlDeviceGetRetiredPagesPendingStatus=1))
    assert isinstance(told, Gpu)
    assert told.memory == Memory(remap_pending=True)


def test_a_field_that_is_not_supported_is_no_recovery_action() -> None:
    fields = [SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED)]
    assert read_gpu(UUID, Driver(nvmlDeviceGetFieldValues=fields)) == Gpu(UUID)


def test_a_future_recovery_action_is_still_one() -> None:
    told = read_gpu(UUID, Driver(nvmlDeviceGetFieldValues=field(9)))
    assert isinstance(told, Gpu)
    assert told.recovery == "action 9"


@pytest.mark.parametrize("uuid", ["GPU-9", "MIG-9", "9"])
def test_a_slice_is_told_as_the_gpu_it_is_of(uuid: str) -> None:
    driver = Driver(
        nvmlDeviceGetDeviceHandleFromMigDeviceHandle={2: 0}.__getitem__,
        nvmlDeviceGetMigMode=[1, 1],
    )
    driver.handles["MIG-9"] = 2
    assert read_gpu(uuid, driver) == Gpu(UUID, mig=True)


@pytest.mark.parametrize("where", ["nvmlDeviceGetHandleByUUID", "nvmlDeviceGetName"])
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_gpu_that_is_out_of_order_is_told_as_such(where: str, code: int) -> None:
    error = pynvml.NVMLError(code)
    assert read_gpu(UUID, Driver(**{where: error})) == Gpu(UUID, fault=str(error))


def test_a_graphical_process_is_named_once() -> None:
    both = [SimpleNamespace(pid=2**22 + 1, usedGpuMemory=None)]
    driver = Driver(
        nvmlDeviceGetComputeRunningProcesses=both, nvmlDeviceGetGraphicsRunningProcesses=both
    )
    told = read_gpu(UUID, driver)
    assert isinstance(told, Gpu)
    assert told.processes == (Process(2**22 + 1, "", None, graphical=True),)


def test_without_a_driver_there_is_a_reason() -> None:
    driver = Driver(nvmlInit=pynvml.NVMLError(pynvml.NVML_ERROR_DRIVER_NOT_LOADED))
    assert read_gpu(UUID, driver) == "NVML: Driver Not Loaded"


def test_this_machine_does_not_know_that_gpu() -> None:
    told = read_gpu(UUID)
    assert isinstance(told, str)
    assert told.startswith("NVML: ")


def test_the_generation_of_a_link_is_told_with_the_best_one() -> None:
    driver = Driver(nvmlDeviceGetCurrPcieLinkGeneration=1, nvmlDeviceGetMaxPcieLinkGeneration=5)
    assert read_generation(UUID, driver) == (1, 5)


@pytest.mark.parametrize(
    "known", [{}, {"nvmlDeviceGetCurrPcieLinkGeneration": 1}], ids=["neither", "only the present"]
)
def test_a_generation_that_is_not_known_is_none(known: dict[str, int]) -> None:
    assert read_generation(UUID, Driver(**known)) is None
