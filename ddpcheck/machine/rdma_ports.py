"""The InfiniBand and RoCE ports that this process could use."""

from __future__ import annotations

from pathlib import Path

from ddpcheck.machine.files import names_in, text_of

DEVICES = Path("sys/class/infiniband")


def active_rdma_ports(root: Path = Path("/")) -> list[str]:
    """Return the ports that are up, as "mlx5_0:1".

    /sys shows a container all devices of the machine; without /dev/infiniband/uverbs* it can use
    none of them.
    """
    if not any(name.startswith("uverbs") for name in names_in(root / "dev/infiniband")):
        return []
    return [
        f"{device}:{port}"
        for device in names_in(root / DEVICES)
        for port in names_in(root / DEVICES / device / "ports")
        if "ACTIVE" in text_of(root / DEVICES / device / "ports" / port / "state")
    ]
