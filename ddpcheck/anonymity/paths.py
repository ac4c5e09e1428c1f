"""Paths without what tells of their owner: each folder by a label, what every machine has as it is."""

from __future__ import annotations

import re
from collections.abc import Callable

from ddpcheck.anonymity.labels import Labels

# Of the system, and the same everywhere.
SYSTEM = re.compile(r"/(?:proc|sys|dev|etc|usr|bin|sbin|lib|lib64|boot|run)(?:/|$)")
# Installed code that anybody can have.
PUBLIC = re.compile(
    r"/(?:(?:site|dist)-packages/(?:torch|nvidia|numpy|ddpcheck|deepspeed|transformers|accelerate|"
    r"lightning\w*|ray|msgspec|triton|apex|_pytest|pytest|mpi4py|psutil|pynvml)(?:[/.].*|)|"
    r"lib/python3[^/]*/(?!(?:site|dist)-packages(?:/|$)).*)$"
)
# Folders that many have; all others may be called after somebody, or what they work on.
COMMON = frozenset(
    {
        *("home", "Users", "root", "tmp", "mnt", "data", "scratch", "var", "opt", "work", "nfs"),
        *("workspace", "src", "lib", "lib64", "bin", "sbin", "venv", ".venv", "env", "envs", "usr"),
        *("site-packages", "dist-packages", "conda", "miniconda3", "anaconda3", ".pyenv", "local"),
        *(
            "reports",
            "latest",
            "ranks",
            "report.json",
            ".nccl.conf",
            "checkpoints",
            "train.py",
            "main.py",
            "~",
        ),
        *(".", "..", "", "share", "include", "cuda", "shm", "lustre", "gpfs", "fsx"),
    }
)
OF_PYTHON = re.compile(r"python[23][\d.]*")
SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,6}$")
HOMES = frozenset({"home", "Users"})


def path_without_names(path: str, labels: Labels, named: Callable[[str], str]) -> str:
    """Return the path with labels for what may tell of its owner; ``named`` replaces known names."""
    if SYSTEM.match(path):
        return named(path)
    public = PUBLIC.search(path)
    kept = named(public[0]) if public else ""
    own = path[: public.start()] if public else path
    parts = own.split("/")
    last = len(parts) - 1 if not public else -1
    return "/".join(_part(parts, at, labels, is_file=at == last) for at in range(len(parts))) + kept


def _part(parts: list[str], at: int, labels: Labels, *, is_file: bool) -> str:
    part = parts[at]
    if at and parts[at - 1] in HOMES and part:
        return labels.of("user", part.lower())
    if part in COMMON or OF_PYTHON.fullmatch(part):
        return part
    suffix = SUFFIX.search(part) if is_file else None
    if suffix and suffix.start():
        return labels.of("file", part, lambda label: label + suffix[0])
    return labels.of("dir", part)
