"""The facts of ranks, host by host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar


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
