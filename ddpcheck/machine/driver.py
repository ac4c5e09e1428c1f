"""The NVIDIA driver: the kernel's part, the program's part (libcuda), and the devices it shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ddpcheck.machine.files import names_in, text_of

CUDA_MAJOR = 1000  # cuDriverGetVersion tells major * 1000 + minor * 10
LIBRARY = "libcuda.so.1"
NO_LIBRARY = -1
NO_DEVICE = 100
# Why CUDA does not start, and what helps. Source: CUDA Driver API, cudaError_enum.
NO_START = {
    NO_LIBRARY: (
        "there is no libcuda.so.1",
        "start the container with --gpus all: nvidia-container-toolkit brings libcuda",
    ),
    NO_DEVICE: (
        "CUDA finds no device",
        "see nvidia-smi -L; where MIG mode is on, create an instance (nvidia-smi mig -cgi)",
    ),
    802: (
        "the GPUs are not ready (802)",
        "systemctl start nvidia-fabricmanager on a host with NVSwitches",
    ),
    803: (
        "libcuda and the kernel's driver differ (803)",
        "reboot the host or reload the driver: it was updated while in use",
    ),
    804: (
        "this GPU takes no libcuda of cuda-compat (804)",
        "remove cuda-compat from LD_LIBRARY_PATH, and update the driver",
    ),
}
HIDDEN = ("", "-1", "none", "void", "NoDevFiles")


def kernel_driver(root: Path = Path("/")) -> str:
    """Return the version of the loaded kernel module, such as "580.159.04", or ''."""
    text = text_of(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)*)\s", text)
    return found[1] if found else ""


def device_count(root: Path = Path("/")) -> int:
    """Return how many GPUs' device files this process is given."""
    return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in names_in(root / "dev"))


def hides_gpus(environ: Mapping[str, str]) -> bool:
    """Return whether the environment says that this process shall see no GPU."""
    shown = environ.get("CUDA_VISIBLE_DEVICES")
    return shown is not None and shown.strip() in HIDDEN


def why_no_gpu(environ: Mapping[str, str], built_for: str, root: Path = Path("/")) -> str:
    """Return in words why this process, which sees no GPU, sees none.

    ``built_for`` is the version of CUDA that torch is built for, or ''. This may start CUDA.
    """
    mask = environ.get("CUDA_VISIBLE_DEVICES")
    if not built_for:
        return "torch is built without CUDA"
    if hides_gpus(environ):
        return f"CUDA_VISIBLE_DEVICES is '{mask}'"
    if not device_count(root):
        return "there is no /dev/nvidia0: a container without GPUs, or a host without their driver"
    error = start_error()
    masked = f"CUDA_VISIBLE_DEVICES is '{mask}', which names no GPU that is here"
    if error:
        unknown = (f"CUDA does not start ({error})", "")
        return masked if mask and error == NO_DEVICE else NO_START.get(error, unknown)[0]
    supported = supported_cuda()
    if _major(supported) < _major(built_for):
        return f"the driver supports CUDA {supported}, torch is built for {built_for}"
    return masked if mask else "torch counts no device"


def supported_cuda() -> str:
    """Return the newest CUDA version that the libcuda of this process supports, or ''.

    A forward-compatibility package (cuda-compat) brings a libcuda that is newer than the kernel's
    part. Asking needs no GPU and starts nothing on one.
    """
    import ctypes

    number = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(LIBRARY).cuDriverGetVersion(ctypes.byref(number))
    major, rest = divmod(number.value, CUDA_MAJOR)
    return f"{major}.{rest // 10}" if number.value else ""


def start_error() -> int:
    """Return CUDA's number for why it cannot start in this process: 0 when it can.

    This starts CUDA: ask only where nothing else can use the GPU anyway.
    """
    import ctypes

    with suppress(OSError, AttributeError):
        return int(ctypes.CDLL(LIBRARY).cuInit(0))
    return NO_LIBRARY


def gpus_in_driver(library: str = LIBRARY) -> int | None:
    """Return how many GPUs CUDA shows; None without a driver, or before its first use.

    It is what CUDA_VISIBLE_DEVICES left at that first use. torch.cuda.device_count() of torch 2.11
    follows the variable for ever, though CUDA does not.
    Source: CUDA Driver API, cuDeviceGetCount.
    """
    import ctypes

    count = ctypes.c_int()
    with suppress(OSError, AttributeError):
        status = ctypes.CDLL(library).cuDeviceGetCount(ctypes.byref(count))
        return count.value if status == 0 else None
    return None


def _major(version: str) -> int:
    major = version.partition(".")[0]
    return int(major) if major.isdecimal() else 0
