"""The facts of ranks, host by host."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Protocol, TypeVar

from ddpcheck.measures import peers
from ddpcheck.measures.words import spans


class OnHost(Protocol):
    """Facts that tell the host they are from."""

    @property
    def host(self) -> str:
        """Return the name of the host, as people know it; other hosts may have it, too."""
        ...


class InPlace(OnHost, Protocol):
    """Facts about something that ranks share."""

    @property
    def place(self) -> str:
        """Return a text that the ranks have in common which share it, and no others."""
        ...


Own = TypeVar("Own", bound=OnHost)
There = TypeVar("There", bound=InPlace)


def by_place(facts: Mapping[int, There]) -> list[dict[int, There]]:
    """Return the facts of the ranks that share a place, place by place, in the order of ranks."""
    return grouped(facts, lambda own: own.place)


def grouped(facts: Mapping[int, Own], key: Callable[[Own], Hashable]) -> list[dict[int, Own]]:
    """Return the facts of the ranks that are alike in ``key``, in the order of the ranks."""
    alike = peers.grouped({rank: key(own) for rank, own in facts.items()})
    return [{rank: facts[rank] for rank in ranks} for ranks in alike.values()]


def joined(groups: Iterable[Mapping[int, Own]]) -> dict[int, Own]:
    """Return the facts of all ranks of these groups, in the order of the ranks."""
    whole = {rank: own for group in groups for rank, own in group.items()}
    return {rank: whole[rank] for rank in sorted(whole)}


def host_names(facts: Mapping[int, OnHost]) -> list[str]:
    """Return the names of the hosts, each once, in the order of their ranks."""
    return list(dict.fromkeys(facts[rank].host for rank in sorted(facts)))


def named(facts: Mapping[int, OnHost]) -> str:
    """Return the host of these ranks so that it cannot be taken for another: "node1 (rank 8-15)"."""
    return f"{', '.join(host_names(facts))} (rank {spans(facts)})"
