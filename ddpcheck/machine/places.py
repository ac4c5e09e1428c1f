"""What processes share: a kernel and what it hands out, whatever their hosts are called.

Names do not tell hosts apart: containers, and machines made from one image, have them in common.
A kernel's boot id does; virtual machines that go back to one snapshot count as one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ddpcheck.machine.files import text_of
from ddpcheck.machine.shared_memory import shared_memory

BOOT_ID = Path("proc/sys/kernel/random/boot_id")


def shared_place(host: str, *shared: object, root: Path = Path("/")) -> str:
    """Return a short text, the same for the processes of one kernel that have ``shared`` in common.

    Where the kernel cannot be told, the host's name stands for it.
    """
    return _digest(text_of(root / BOOT_ID).strip() or host, *shared)


def namespace(kind: str, root: Path = Path("/")) -> int:
    """Return the number of this process's namespace, such as "net" or "user"; 0 if not known."""
    try:
        return (root / "proc/self/ns" / kind).stat().st_ino
    except OSError:
        return 0


def nccl_host(host: str, environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """Return a short text, the same for the ranks that NCCL takes for those of one host.

    It connects all others over the network. Source: NCCL, src/misc/utils.cc (getHostHash) and
    src/transport/shm.cc (shmCanConnect): name and boot id, or NCCL_HOSTID, and one /dev/shm.
    """
    space = shared_memory(root)
    named = environ.get("NCCL_HOSTID") or f"{host}{text_of(root / BOOT_ID).strip()}"
    return _digest(named, space.device if space else 0)


def _digest(*words: object) -> str:
    from hashlib import sha256

    return sha256(" ".join(map(str, words)).encode()).hexdigest()[:12]
