"""NCCL or gloo would use an interface that does not lead to the other hosts.

Why it matters
    Each rank tells the others one address to connect to. When that is the loopback, or a bridge
    that has the same address on every host (docker0, virbr0), they connect to themselves, and the
    job hangs. NCCL_SOCKET_IFNAME=^docker0 lets the loopback in again, which NCCL leaves out by
    itself; GLOO_SOCKET_IFNAME=lo is right on one host only; and a name that no interface has ends
    the job ("no socket interface found", "Unable to find address for").
What to do
    Name the interface that leads to the other hosts, on each host: NCCL_SOCKET_IFNAME=eth0 for
    NCCL, GLOO_SOCKET_IFNAME=eth0 for gloo. Or unset both. NCCL takes prefixes, and =eth0 for just
    that one; when interfaces are to be left out, leave out the loopback, too: ^docker,lo.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.network.choice import Chosen
from ddpcheck.network.standing import (
    Standing,
    are_several_hosts,
    callers_fail,
    export,
    names,
    standing,
    variable,
)

Ranks = Mapping[int, Standing]


class Facts(msgspec.Struct, frozen=True):
    """How a rank stands in the network: the interfaces that its backend would use, above all."""

    standing: Standing


def probe(ctx: Context) -> Facts:
    """Return which interfaces the backend would choose on this rank."""
    ctx.require_meeting()
    found = standing(ctx.host, ctx.backend, ctx.environ)
    if found is None:
        raise Skip("the kernel tells no interfaces")
    return Facts(found)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the settings that mean no interface, and the addresses that lead nowhere."""
    ranks = {rank: own.standing for rank, own in sorted(facts.items())}
    found = [*_missing(ranks), *_idle(ranks)]
    if are_several_hosts(ranks):
        found += [*_loopback(ranks), *_shared(ranks)]
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return which interfaces would be used."""
    used = {each.interface for own in facts.values() for each in used_by(own.standing)}
    return f"{facts[min(facts)].standing.backend} would use {names(used) or 'none'}"


def used_by(own: Standing) -> tuple[Chosen, ...]:
    """Return what the others are told: NCCL's ranks meet at the first, gloo's use them all."""
    return own.choice.chosen[:1] if own.backend == "nccl" else own.choice.chosen


def _missing(ranks: Ranks) -> Iterator[Finding]:
    for setting, guilty in _by_setting({r: o for r, o in ranks.items() if o.choice.missing}):
        own = guilty[min(guilty)]
        lacks = " and ".join(f"'{name}'" for name in own.choice.missing)
        told = f"{_set(own, setting)}, and no interface with an address is meant by {lacks}"
        yield _finding(guilty, "no interface matches the setting", told)


def _idle(ranks: Ranks) -> Iterator[Finding]:
    for setting, guilty in _by_setting({r: o for r, o in ranks.items() if o.choice.idle}):
        own = guilty[min(guilty)]
        told = (
            f"{_set(own, setting)}, and {names(own.choice.idle)} is down or has no carrier: NCCL "
            "since 2.28 passes over it"
        )
        yield _finding(guilty, "the interface does not run", told, severity=Severity.WARNING)


def _loopback(ranks: Ranks) -> Iterator[Finding]:
    # Where gloo takes it because of the host's name, hostname-is-loopback tells.
    guilty = {
        rank: own
        for rank, own in ranks.items()
        if any(used.is_loopback for used in used_by(own))
        and (own.choice.setting or own.backend == "nccl")
    }
    called = callers_fail(ranks)
    for setting, those in _by_setting(guilty):
        own = those[min(those)]
        sure = own.backend == "nccl" or any(each.domain in called for each in those.values())
        luck = "" if sure else ", unless their addresses are all lower, as they are now"
        told = f"{_set(own, setting)}: the other hosts are told {_shown(own)}, their own loopback"
        severity = Severity.ERROR if sure else Severity.WARNING
        yield _finding(those, "the loopback is used between hosts", told + luck, severity=severity)


def _shared(ranks: Ranks) -> Iterator[Finding]:
    owners: dict[str, dict[int, Standing]] = {}
    for rank, own in ranks.items():
        for used in used_by(own):
            if not used.is_loopback:
                owners.setdefault(used.address, {})[rank] = own
    for address, guilty in owners.items():
        if are_several_hosts(guilty):
            own = guilty[min(guilty)]
            told = (
                f"{own.backend} would use {_shown(own)}, and {address} is an address of each of "
                "them: whoever connects to it reaches itself"
            )
            yield _finding(guilty, "hosts use the same address", told, address)


def _by_setting(ranks: Ranks) -> list[tuple[str, dict[int, Standing]]]:
    groups: dict[tuple[str, tuple[str, ...]], dict[int, Standing]] = {}
    for rank, own in ranks.items():
        groups.setdefault((own.choice.setting, own.choice.missing), {})[rank] = own
    return [(setting, guilty) for (setting, _), guilty in groups.items()]


def _set(own: Standing, setting: str) -> str:
    name = variable(own.backend)
    return f"{name} is '{setting}'" if setting else f"{name} is not set"


def _shown(own: Standing) -> str:
    told = (f"{used.interface} ({used.kind.value}, {used.address})" for used in used_by(own))
    return " and ".join(told)


def _finding(
    guilty: Ranks, title: str, told: str, *avoid: str, severity: Severity = Severity.ERROR
) -> Finding:
    own = guilty[min(guilty)]
    hosts = names({each.host for each in guilty.values()})
    return Finding(
        title=title,
        message=f"{hosts}: {told}",
        fix=export(guilty.values(), variable(own.backend), avoid),
        ranks=tuple(guilty),
        severity=severity,
    )
