"""NCCL would use virtual interfaces beside the real one.

Why it matters
    Without a setting NCCL spreads its traffic over all interfaces that run. The ends of
    containers' cables (veth, cali), bridges and tunnels are among them: their addresses lead no
    further than this host, or the same address is on every host, so that connections time out
    ("Using [0]eth0:10.0.0.1 [1]veth42:fe80::1"); a tunnel may work, slowly.
What to do
    export NCCL_SOCKET_IFNAME with the interface that leads to the other hosts. Where NCCL finds
    InfiniBand, RoCE or a network plugin it uses these instead, and only meets over the first.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.interfaces import Kind
from ddpcheck.network.choice import NCCL_NAME, Chosen
from ddpcheck.network.standing import Standing, are_several_hosts, export, names, standing


class Facts(msgspec.Struct, frozen=True):
    """How a rank stands in the network: the interfaces that NCCL would use, above all."""

    standing: Standing


def probe(ctx: Context) -> Facts:
    """Return which interfaces NCCL would use on this rank."""
    ctx.require_meeting()
    if ctx.backend != "nccl":
        raise Skip("this run does not use NCCL")
    found = standing(ctx.host, ctx.backend, ctx.environ)
    if found is None:
        raise Skip("the kernel tells no interfaces")
    return Facts(found)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ranks that would use interfaces which lead nowhere, beside one that does."""
    ranks = {rank: own.standing for rank, own in sorted(facts.items())}
    if not are_several_hosts(ranks):
        return []
    shared = _shared(ranks)
    odd = {rank: told for rank, own in ranks.items() if (told := _odd(own, shared))}
    if not odd:
        return []
    hosts = {ranks[rank].host: told for rank, told in odd.items()}
    return [
        Finding(
            title="NCCL would use virtual interfaces, too",
            message=names(f"{host} would use {told}" for host, told in hosts.items()),
            fix=export((ranks[rank] for rank in odd), NCCL_NAME),
            ranks=tuple(odd),
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return which interfaces NCCL would use."""
    used = {each.interface for own in facts.values() for each in own.standing.choice.chosen}
    return f"NCCL would use {names(used) or 'no interface'}"


def _odd(own: Standing, shared: set[str]) -> str:
    """Return what is beside the first interface that should not be, in words, or ''."""
    # What a user has named is meant; what is left after an exclusion is not.
    if own.choice.is_named or own.has_rdma or not own.choice.chosen:
        return ""
    first, *others = own.choice.chosen
    told = [f"{other.interface} ({why})" for other in others for why in _reasons(other, shared)]
    return f"{names(told)} beside {first.interface} ({first.address})" if told else ""


def _reasons(other: Chosen, shared: set[str]) -> Iterator[str]:
    if other.is_link_local:
        yield f"{other.address} is link-local"
    elif other.address in shared:
        yield f"{other.address} is on several hosts"
    elif other.kind is Kind.TUNNEL:
        yield f"{other.address} is a tunnel's"


def _shared(ranks: Mapping[int, Standing]) -> set[str]:
    owners: dict[str, set[str]] = {}
    for own in ranks.values():
        for chosen in own.choice.chosen:
            owners.setdefault(chosen.address, set()).add(own.domain)
    return {address for address, domains in owners.items() if len(domains) > 1}
