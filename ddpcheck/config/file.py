"""The settings file: ``ddpcheck.toml``, or ``[tool.ddpcheck]`` in ``pyproject.toml``.

It is looked for in the working directory and upwards to the repository's root, or the file
system's; the first folder that has one ends the search. In one folder ``ddpcheck.toml`` counts,
and the other is passed over.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpcheck.errors import UsageError

OWN_NAME = "ddpcheck.toml"
SHARED_NAME = "pyproject.toml"
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
WRITABLE_BY_ALL = stat.S_IWOTH


@dataclass(frozen=True)
class SettingsFile:
    """What stands in a settings file; ``prefix`` is where its keys stand in the document.

    ``shown`` is its path as users write it. ``passed_over`` is a file that does not count.
    """

    shown: str = ""
    prefix: str = ""
    content: Mapping[str, Any] = field(default_factory=dict[str, Any])
    passed_over: str = ""

    def key(self, *names: str) -> str:
        """Return a key of the file as the user finds it, behind the file's name."""
        written = (
            name if BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
            for name in names
        )
        return f"{self.shown}: {self.prefix}{'.'.join(written)}"


def settings_file(named: str, folder: Path) -> SettingsFile:
    """Return the settings file that is named, or else the one for ``folder``; it may be empty.

    Raises UsageError, naming the file, for one that cannot be read.
    """
    if named:
        return _required(Path(named))
    for place in (folder, *folder.parents):
        own, shared = (_found(place / name) for name in (OWN_NAME, SHARED_NAME))
        if own is not None:
            over = shared.shown if shared is not None else ""
            return SettingsFile(own.shown, content=own.content, passed_over=over)
        if shared is not None:
            return shared
        if _is_there(place / ".git"):
            break
    return SettingsFile()


def working_directory() -> Path:
    """Return the working directory, or the root where it was removed."""
    with suppress(OSError):
        return Path.cwd()
    return Path("/")


def _required(file: Path) -> SettingsFile:
    found = _read(file)
    if found is None:
        raise UsageError(f"{file} has no table [tool.ddpcheck]: add it, or name another --config")
    return found


def _found(file: Path) -> SettingsFile | None:
    return _read(file) if _is_there(file) and not _is_a_strangers(file) else None


def _is_there(file: Path) -> bool:
    with suppress(OSError):
        return file.exists()
    return False


def _is_a_strangers(file: Path) -> bool:
    """Return whether anybody may have left it there, as in /tmp: a target in it would be run."""
    with suppress(OSError):
        anybodys = bool(file.parent.stat().st_mode & WRITABLE_BY_ALL)
        return anybodys and file.stat().st_uid not in (0, os.getuid())
    return True


def _read(file: Path) -> SettingsFile | None:
    """Return what stands in the file, or None for one of another tool."""
    shown = _shown(file)
    try:
        document = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise UsageError(f"cannot read {shown}: {error.strerror}; correct --config") from error
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{shown} is not TOML: {reason}; correct it") from error
    if file.name != SHARED_NAME:
        return SettingsFile(shown, content=document)
    tools = document.get("tool")
    table = tools.get("ddpcheck") if isinstance(tools, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise UsageError(f"{shown}: tool.ddpcheck must be a table: [tool.ddpcheck]")
    return SettingsFile(shown, "tool.ddpcheck.", table)


def _shown(file: Path) -> str:
    with suppress(ValueError):
        return str(file.relative_to(working_directory()))
    return str(file)
