"""Which shared libraries this process has really loaded, and their versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
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


def can_be_loaded(names: Iterable[str]) -> bool:
    """Return whether one of these libraries is there; then this process has loaded it."""
    import ctypes

    for name in names:
        with suppress(OSError):
            ctypes.CDLL(name)
            return True
    return False


def nccl_version(path: str | None) -> str:
    """Return what the library at this path says of itself, or '' if it does not.

    Of a library that is loaded already this is the loaded one, not a second copy; of None it is
    the one that goes before all others (LD_PRELOAD).
    """
    import ctypes

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
    """Return the version of the NCCL library that is loaded, or '' when there is none.

    It may still be part of torch itself: see ``nccl_of_torch``.
    """
    return next(filter(None, map(nccl_version, (None, *loaded(NCCL, root)))), "")


def nccl_built_for() -> str:
    """Return the version of NCCL that torch was built for, or '' when it was built without.

    On ROCm that is the version of RCCL, which answers in NCCL's place.
    """
    if not import_module("torch").distributed.is_nccl_available():
        return ""
    return ".".join(str(part) for part in import_module("torch.cuda.nccl").version()[:3])


def nccl_of_torch() -> str:
    """Return the version of the NCCL that torch calls, or '' when it was built without."""
    return nccl_in_use() or nccl_built_for()


def reading_versions(*, on_gpu: bool) -> dict[str, str]:
    """Return the versions of torch, and of NCCL where this run uses it: who reads the variables.

    On ROCm, RCCL's version says nothing on NCCL's variables.
    """
    torch = import_module("torch")
    told = {"torch": str(torch.__version__).partition("+")[0]}
    nccl = nccl_of_torch() if on_gpu and not torch.version.hip else ""
    return told | ({"nccl": nccl} if nccl else {})
