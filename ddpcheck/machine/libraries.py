"""Which shared libraries this process has really loaded, and their versions."""

from __future__ import annotations

import ctypes
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ddpcheck.machine.files import text_of

NCCL = "libnccl"
# Since NCCL 2.9 a version is major * 10000 + minor * 100 + patch. Source: nccl.h, NCCL_VERSION.
NCCL_PARTS = (10_000, 100, 1)
# The packages that bring NCCL beside torch's wheels, one a CUDA version.
NCCL_PACKAGES = ("nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13")


def loaded(name: str, root: Path = Path("/")) -> list[str]:
    """Return the paths of the mapped files of a library such as "libnccl", each file once."""
    files: dict[tuple[str, str], str] = {}
    for line in text_of(root / "proc/self/maps").splitlines():
        *_, device, inode, path = [*line.split(maxsplit=5), "", ""][:6]
        path = path.removesuffix(" (deleted)")
        if re.match(rf"{re.escape(name)}\.so(\.|$)", Path(path).name):
            files.setdefault((device, inode), path)
    return list(files.values())


def nccl_version(path: str | None) -> str:
    """Return what the library at this path says of itself, or '' if it does not.

    Of a library that is loaded already this is the loaded one, not a second copy; of None it is
    the one that goes before all others (LD_PRELOAD).
    """
    number = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number))
    return nccl_version_of(number.value)


def nccl_version_of(number: int) -> str:
    """Return a version such as "2.28.9" for the number 22809, or '' for 0."""
    rest, told = number, list[str]()
    for part in NCCL_PARTS:
        told.append(str(rest // part))
        rest %= part
    return ".".join(told) if number else ""


def packaged_nccl() -> dict[str, str]:
    """Return the installed packages that bring NCCL, with their versions."""
    found: dict[str, str] = {}
    for name in NCCL_PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def nccl_in_use(root: Path = Path("/")) -> str:
    """Return the version of the NCCL that torch calls, or '' when none is loaded."""
    return next(filter(None, map(nccl_version, (None, *loaded(NCCL, root)))), "")
