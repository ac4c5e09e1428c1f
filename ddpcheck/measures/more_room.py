"""What gives a job more room than it has: said alike by all checks that ask for it."""

from __future__ import annotations

AMPLE_FILES_COUNT = 65536
SHARED_MEMORY = (
    "give it more: docker run --shm-size=16g (or --ipc=host), in Kubernetes an emptyDir with "
    "medium: Memory at /dev/shm, elsewhere mount -o remount,size=16g /dev/shm; and remove "
    "/dev/shm/nccl-* and torch_* of jobs that are gone"
)
BY_NAME = 'torch.multiprocessing.set_sharing_strategy("file_system")'


def open_files(need: int, hard: int | None) -> str:
    """Return how a process gets ``need`` open files; ``hard`` is how far it may go by itself."""
    wanted = max(AMPLE_FILES_COUNT, 2 * need)
    if hard is None or hard >= need:
        own = wanted if hard is None else min(wanted, hard)
        return f"ulimit -n {own} in the script that starts the ranks"
    return (
        f"the hard limit is {hard}: raise it where the ranks come from (docker run --ulimit "
        f"nofile={wanted}, LimitNOFILE={wanted} of slurmd's or kubelet's service)"
    )
