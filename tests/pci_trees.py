"""PCI devices in a tree of files as Linux shows them, with registers that were really read."""

from pathlib import Path

CAPTURED = Path(__file__).parent / "machine" / "captured"
REGISTERS_BYTES = 4096


def write(root: Path, place: str, text: str | bytes) -> None:
    """Write a file below the root, with the folders above it."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def device(root: Path, place: str, config: bytes, width: str = "16\n") -> None:
    """Add a device at its place below its bridges, with its registers and the lanes it uses."""
    write(root, f"{place}/config", config)
    write(root, f"{place}/current_link_width", width)
    write(root, f"{place}/max_link_width", "16\n")
    link = root / "sys/bus/pci/devices" / Path(place).name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(root / place)


def captured(name: str) -> bytes:
    """Return all registers of a captured device."""
    registers = bytearray(REGISTERS_BYTES)
    for line in (CAPTURED / f"{name}.txt").read_text().splitlines():
        if not line.startswith("#"):
            at, _, values = line.partition(":")
            registers[int(at, 16) : int(at, 16) + 16] = bytes.fromhex(values)
    return bytes(registers)
