"""What NCCL is set to: by the environment, or else by its configuration files."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

SYSTEM_FILE = "etc/nccl.conf"
USER_FILE = ".nccl.conf"


def nccl_settings(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return NCCL's settings; what comes first wins: environment, the user's file, the system's.

    Source: NCCL, user guide, "Environment Variables": NCCL_CONF_FILE replaces ~/.nccl.conf.
    """
    settings = {name: value for name, value in environ.items() if name.startswith("NCCL_")}
    named = settings.get("NCCL_CONF_FILE")
    for file in (Path(named) if named else _home() / USER_FILE, root / SYSTEM_FILE):
        settings = {**_read(file), **settings}
    return settings


def _home() -> Path:
    with suppress(KeyError):  # containers run as users that nobody has entered
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    return Path("/")


def _read(file: Path) -> dict[str, str]:
    text = ""
    with suppress(OSError, UnicodeDecodeError):
        text = file.read_text()
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, sign, value in pairs if sign and name.startswith("NCCL_")}
