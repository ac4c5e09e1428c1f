"""Names of hosts as Slurm writes many of them: ``node[001-003,007],login``.

Source: Slurm's "scontrol show hostlist" and the manual of srun, --nodelist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# What may stand in the name of a host. Whatever else came in place of one is no host that Slurm
# knows, and must not get into a command line.
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?")
# A longer number is no counter: Slurm itself reads it as 64 bits at most.
NUMBERED = re.compile(r"(.*[^0-9])([0-9]{1,15})")
# Slurm refuses to expand a longer range (MAX_RANGE in its hostlist.c).
MOST_IN_RANGE = 65_535


def hostlist(hosts: Iterable[str]) -> str:
    """Return the hosts, each once, in Slurm's hostlist syntax, '' for none.

    Names that differ in their last number alone share brackets; zeros before it are kept. What
    is no name of a host is left out.
    """
    names = sorted({host for host in hosts if HOST.fullmatch(host)})
    groups: dict[tuple[str, int], list[int]] = {}
    for name in names:
        prefix, digits = _parts(name)
        if digits:
            groups.setdefault((prefix, _width(digits)), []).append(int(digits))
    _widen(groups)
    plain = [name for name in names if not _parts(name)[1]]
    folded = [_entry(prefix, width, own) for (prefix, width), own in groups.items()]
    return ",".join(sorted([*plain, *folded]))


def short_names(hosts: Iterable[str]) -> dict[str, str]:
    """Return the name without its domain of each host, as Slurm's nodes are called.

    Where two would get the same name, or one is an address, all keep their own.
    """
    listed = set(hosts)
    short = {host: host.partition(".")[0] for host in listed}
    clear = len(set(short.values())) == len(listed) and not any(map(str.isdecimal, short.values()))
    return short if clear else {host: host for host in listed}


def _parts(name: str) -> tuple[str, str]:
    found = NUMBERED.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _width(digits: str) -> int:
    """Return how many digits the number is padded to, 0 where it is not."""
    return len(digits) if digits.startswith("0") and len(digits) > 1 else 0


def _widen(groups: dict[tuple[str, int], list[int]]) -> None:
    """Move numbers that need no zeros to those of their prefix and length that do: 09 and 10."""
    for prefix, width in [key for key in groups if key[1]]:
        plain = groups.get((prefix, 0), [])
        wide = [number for number in plain if len(str(number)) == width]
        groups[prefix, width] += wide
        if wide:
            groups[prefix, 0] = [number for number in plain if number not in set(wide)]
    for key in [key for key, numbers in groups.items() if not numbers]:
        del groups[key]


def _entry(prefix: str, width: int, numbers: Sequence[int]) -> str:
    told = ",".join(
        f"{first:0{width}d}" if first == last else f"{first:0{width}d}-{last:0{width}d}"
        for first, last in _runs(sorted(numbers))
    )
    return f"{prefix}[{told}]" if len(numbers) > 1 else f"{prefix}{told}"


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in numbers:
        first, last = found[-1] if found else (number, number)
        if found and number == last + 1 and number - first < MOST_IN_RANGE:
            found[-1] = (first, number)
        else:
            found.append((number, number))
    return found
