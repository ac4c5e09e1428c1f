"""Some hosts would use IPv4 and others IPv6, and cannot connect to each other.

Why it matters
    Each rank tells the others one address. gloo refuses pairs of an IPv4 and an IPv6 address
    ("ss1.ss_family == ss2.ss_family"); with NCCL a host that has no address of the other family
    cannot connect ("Network is unreachable"). It happens where a host's name leads to its IPv6
    address on some hosts only, or where some interfaces have no IPv4 address.
What to do
    Let all hosts use one family: NCCL_SOCKET_FAMILY=AF_INET (or AF_INET6) for NCCL; for gloo,
    GLOO_SOCKET_IFNAME, of which it takes the IPv4 address when there is one, or names that lead
    to addresses of one family in /etc/hosts.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding
from ddpcheck.network.choice import FAMILIES, GLOO_NAME
from ddpcheck.network.standing import Standing, are_several_hosts, export, names, standing


class Facts(msgspec.Struct, frozen=True):
    """How a rank stands in the network: the family of the address that it tells, above all."""

    standing: Standing


def probe(ctx: Context) -> Facts:
    """Return the addresses that the backend would use on this rank."""
    ctx.require_meeting()
    found = standing(ctx.host, ctx.backend, ctx.environ)
    if found is None:
        raise Skip("the kernel tells no interfaces")
    return Facts(found)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the ranks of the rarer family, where the others cannot connect to it."""
    ranks = {rank: own.standing for rank, own in sorted(facts.items())}
    families = {rank: family for rank, own in ranks.items() if (family := _told_by(own))}
    if len(set(families.values())) < len(FAMILIES) or not are_several_hosts(ranks):
        return []
    if not any(_is_cut_off(ranks[rank], family) for rank, family in families.items()):
        return []
    rare = min(FAMILIES.values(), key=lambda family: _hosts_of(family, families, ranks))
    guilty = tuple(rank for rank, family in families.items() if family == rare)
    return [
        Finding(
            title="hosts use addresses of two families",
            message=" and ".join(_told(f, families, ranks) for f in sorted(FAMILIES.values())),
            fix=_fix(ranks),
            ranks=guilty,
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the families that the hosts would use."""
    told = {_told_by(own.standing) for own in facts.values()} - {0}
    return " and ".join(f"IPv{family}" for family in sorted(told)) or "no address"


def _told_by(own: Standing) -> int:
    """Return the family of the address that others connect to, 0 when that is no use anyway."""
    first = next(iter(own.choice.chosen), None)
    return first.family if first and not first.is_loopback else 0


def _is_cut_off(own: Standing, family: int) -> bool:
    """Return whether a rank that tells this family cannot connect to those of the other."""
    (other,) = set(FAMILIES.values()) - {family}
    return own.backend != "nccl" or other not in own.families


def _hosts_of(family: int, families: Mapping[int, int], ranks: Mapping[int, Standing]) -> int:
    return len({ranks[rank].domain for rank, own in families.items() if own == family})


def _told(family: int, families: Mapping[int, int], ranks: Mapping[int, Standing]) -> str:
    hosts = {
        f"{ranks[rank].host} ({ranks[rank].choice.chosen[0].address})"
        for rank, own in families.items()
        if own == family
    }
    return f"IPv{family} is what {ranks[min(ranks)].backend} would use on {names(hosts)}"


def _fix(ranks: Mapping[int, Standing]) -> str:
    common = [
        (name, family)
        for name, family in FAMILIES.items()
        if all(family in own.families for own in ranks.values())
    ]
    if not common:
        return "give all hosts an address of one family: they have none in common now"
    if ranks[min(ranks)].backend == "nccl":
        return f"export NCCL_SOCKET_FAMILY={common[0][0]} on all hosts"
    return f"{export(ranks.values(), GLOO_NAME)}; it takes the IPv4 address when there is one"
