"""The settings that NCCL takes from files.

Source: setEnvFile and initEnvFunc in NCCL v2.30.7, src/misc/param.cc. NCCL reads $NCCL_CONF_FILE or
else ~/.nccl.conf, then /etc/nccl.conf. What is set already stays: the environment comes first, then
the user's file, then the system's. A name is all that stands before the first '=', blanks included.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ddpcheck.measures.words import listed
from ddpcheck.variables.environ import is_relevant, shown

SYSTEMS_FILE = "/etc/nccl.conf"
USERS_FILE = ".nccl.conf"
# What was meant to be a name, in a line that NCCL reads otherwise.
MEANT = re.compile(r"\s*(?:export\s+|set\s+|setenv\s+)?(\w+)")


class ConfFile(msgspec.Struct, frozen=True):
    """One file: what it sets, its lines that set nothing NCCL reads, and why it is not read.

    The file may be one of variables for anybody, with secrets: of its lines that are not about
    what this project knows, nothing is kept but their number.
    """

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


def with_conf_files(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the environment as NCCL sees it: its own settings, then those of the files."""
    effective: dict[str, str] = {}
    for source in (environ, *(each.settings for each in conf_files(environ, root))):
        effective = {**source, **effective}
    return effective


def origins(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the file that each setting comes from which the environment does not make."""
    files = reversed(conf_files(environ, root))
    found = {name: each.path for each in files for name in each.settings}
    return {name: path for name, path in found.items() if name not in environ}


def taken_back(origin_of: Iterable[tuple[str, str]]) -> str:
    """Return how to take settings back; each comes with its file, '' for the environment."""
    names: dict[str, list[str]] = {}
    for name, path in dict.fromkeys(origin_of):
        names.setdefault(path, []).append(name)
    return "; ".join(
        f"remove {listed(names[path])} from {path}" if path else f"unset {listed(names[path])}"
        for path in sorted(names)
    )


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
    for number, line in enumerate(text.splitlines(), 1):
        name, mark, value = line.partition("=")
        if line.startswith("#") or not line.strip():
            continue
        if not (mark and name.isidentifier()):
            useless.append(_told(number, line))
        elif is_relevant(name):
            settings.setdefault(name, shown(name, value))
    return ConfFile(path, settings, tuple(useless))


def _told(number: int, line: str) -> str:
    meant = MEANT.match(line)
    name = meant[1] if meant and is_relevant(meant[1]) else ""
    return f"line {number} ({name})" if name else f"line {number}"
