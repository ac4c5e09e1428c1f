"""The settings that NCCL takes from files.

Source: setEnvFile and initEnvFunc in NCCL v2.30.7, src/misc/param.cc. NCCL reads $NCCL_CONF_FILE or
else ~/.nccl.conf, then /etc/nccl.conf. What is set already stays: the environment comes first, then
the user's file, then the system's. A name is all that stands before the first '=', blanks included.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ddpcheck.variables.environ import shown

SYSTEMS_FILE = "/etc/nccl.conf"
USERS_FILE = ".nccl.conf"


class ConfFile(msgspec.Struct, frozen=True):
    """One file: what it sets, its lines that set nothing NCCL reads, and why it is not read."""

    path: str
    settings: dict[str, str]
    useless: tuple[str, ...] = ()
    trouble: str = ""


def conf_files(environ: Mapping[str, str], root: Path = Path("/")) -> list[ConfFile]:
    """Return the files that NCCL reads, the one that comes first first."""
    named = environ.get("NCCL_CONF_FILE", "")
    home = environ.get("HOME", "")
    users = named or (f"{home}/{USERS_FILE}" if home else "")
    read = [_read(users, root, is_named=bool(named))] if users else []
    return [each for each in (*read, _read(SYSTEMS_FILE, root, is_named=False)) if each]


def _read(path: str, root: Path, *, is_named: bool) -> ConfFile | None:
    place = root / path.lstrip("/") if path.startswith("/") else Path(path)
    try:
        text = place.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ConfFile(path, {}, trouble="there is no such file") if is_named else None
    except OSError as error:
        return ConfFile(path, {}, trouble=error.strerror or str(error))
    return _parsed(path, text)


def _parsed(path: str, text: str) -> ConfFile:
    settings: dict[str, str] = {}
    useless: list[str] = []
    for line in text.splitlines():
        name, mark, value = line.partition("=")
        if line.startswith("#") or not line.strip():
            continue
        if mark and name.isidentifier():
            settings.setdefault(name, shown(name, value))
        else:
            useless.append(f"{name}{mark}{shown(name.strip(), value)}" if mark else line)
    return ConfFile(path, settings, tuple(useless))


def with_conf_files(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the environment as NCCL sees it: its own settings, then those of the files."""
    effective: dict[str, str] = {}
    for source in (environ, *(each.settings for each in conf_files(environ, root))):
        effective = {**source, **effective}
    return effective
