"""Where a file lies, as those who look at a repository name it."""

from pathlib import Path
from urllib.parse import quote

from ddpcheck.render.words import clipped

LONGEST_PATH = 4_096


def in_workspace(file: str) -> str:
    """Return ``file`` as it is named from the working directory, when it lies below it."""
    path = Path(file)
    here = Path.cwd()
    if path.is_absolute() and path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    return file


def as_uri(file: str) -> str:
    """Return a relative URI for a file below the working directory, ``file:///...`` for another.

    Every character but those of RFC 3986's paths is percent-encoded; what is not UTF-8 as "?".
    """
    name = clipped(in_workspace(file), LONGEST_PATH)
    quoted = quote(name.encode(errors="replace"), safe="/-._~")
    if name.startswith("/"):
        return f"file://{quoted}" if not name.startswith("//") else f"file:///{quoted.lstrip('/')}"
    return quoted
