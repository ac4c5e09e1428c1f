"""The facts of ranks, host by host, and hosts and sizes in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

SHOWN_COUNT = 8  # a reader wants no more ranks or hosts in a line
UNIT_BYTES = 1024
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


class OnHost(Protocol):
    """Facts that tell the host they are from."""

    @property
    def host(self) -> str:
        """Return the name of the host."""
        ...


Own = TypeVar("Own", bound=OnHost)


def by_host(facts: Mapping[int, Own]) -> dict[str, dict[int, Own]]:
    """Return the facts of each host's ranks, in the order of the ranks."""
    hosts: dict[str, dict[int, Own]] = {}
    for rank in sorted(facts):
        hosts.setdefault(facts[rank].host, {})[rank] = facts[rank]
    return hosts


def ranks_on(hosts: Iterable[str], facts: Mapping[int, OnHost]) -> tuple[int, ...]:
    """Return the ranks of these hosts."""
    named = set(hosts)
    return tuple(sorted(rank for rank, own in facts.items() if own.host in named))


def listed(names: Iterable[object]) -> str:
    """Return the first names, and how many more there are."""
    told = [str(name) for name in names]
    more = len(told) - SHOWN_COUNT
    return ", ".join(told[:SHOWN_COUNT]) + (f" and {more} more" if more > 0 else "")


def size(count_bytes: float) -> str:
    """Return a size as people read it, such as "64 MiB" or "1.5 GiB"."""
    scale = 0
    while abs(count_bytes) >= UNIT_BYTES and scale < len(UNITS) - 1:
        count_bytes /= UNIT_BYTES
        scale += 1
    return f"{round(count_bytes, 1):g} {UNITS[scale]}"
