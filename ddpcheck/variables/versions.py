"""Versions of torch and NCCL, as numbers that can be compared."""

import re
from importlib import import_module

Version = tuple[int, ...]


def version(text: str) -> Version | None:
    """Return the numbers of '2.28.9' or '2.13.0+cpu'; None when there is none."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else None


def reading_versions(*, on_gpu: bool) -> dict[str, str]:
    """Return the versions of torch, and of NCCL where this run uses it and torch was built with it.

    On ROCm, RCCL answers in NCCL's place, and its version says nothing on NCCL's variables.
    """
    torch = import_module("torch")
    told = {"torch": str(torch.__version__).partition("+")[0]}
    if on_gpu and torch.distributed.is_nccl_available() and not torch.version.hip:
        told["nccl"] = ".".join(map(str, import_module("torch.cuda.nccl").version()))
    return told
