"""Small files of /proc and /sys, which may be missing, forbidden, or gone the next moment."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Return what the file holds, or '' when it cannot be read."""
    return bytes_of(path).decode(errors="replace")


def bytes_of(path: Path) -> bytes:
    """Return what the file holds, or b'' when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def names_in(folder: Path) -> list[str]:
    """Return the sorted names in the folder, or none when it cannot be read."""
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []
