"""Names of hosts lead to different places on different hosts.

Why it matters
    A stale /etc/hosts or name server sends some ranks to another machine, or to themselves, when
    they look for MASTER_ADDR: they then wait for ranks that never come. Names that do not resolve
    at all cost seconds at every lookup, and stop tools that go by names: ssh, mpirun, RPC.
What to do
    Let every host have the same entries in /etc/hosts, or one name server, or put an address into
    MASTER_ADDR. Pods of Kubernetes need not know each other's names: gloo and NCCL use addresses.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.interfaces import loopback_domain
from ddpcheck.network.names import is_address, loopbacks, names_of_others, resolved_all
from ddpcheck.network.standing import names

# A lookup may take 10 s where a name server is gone; nobody waits for that.
BUDGET_S = 4.0
MASTER = "put an address of rank 0's host into MASTER_ADDR, or correct it in /etc/hosts on {hosts}"
SAME = "where other tools go by names, let /etc/hosts or the name server of {hosts} know them"


class Facts(msgspec.Struct, frozen=True):
    """Where MASTER_ADDR leads to from a host, '' when it is an address.

    ``looks`` is False on the ranks that leave looking up to another rank of their host; the
    names that lead nowhere, and those with no answer in time, are in ``unknown`` and ``slow``.
    """

    host: str
    domain: str
    looks: bool
    master: str = ""
    places: tuple[str, ...] = ()
    asked_count: int = 0
    unknown: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()


def probe(ctx: Context) -> Facts:
    """Return where MASTER_ADDR and the names of the other hosts lead to from here."""
    ctx.require_meeting()
    if ctx.store is None:
        raise Skip("the ranks have no store to tell each other their names")
    domain = loopback_domain(ctx.host)
    asked = names_of_others(ctx.store, "network/name-resolution", ctx.world_size, ctx.host, domain)
    if not asked:
        return Facts(ctx.host, domain, looks=asked is not None)
    given = ctx.environ.get("MASTER_ADDR", "")
    master = "" if is_address(given) else given
    answers = resolved_all([name for name in (master, *asked) if name], BUDGET_S)
    return Facts(
        host=ctx.host,
        domain=domain,
        looks=True,
        master=master,
        places=answers.get(master, ()),
        asked_count=len(asked),
        unknown=tuple(name for name in asked if answers.get(name) == ()),
        slow=tuple(name for name in asked if name not in answers),
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return whom MASTER_ADDR leads astray, and which names lead nowhere."""
    looked = {rank: own for rank, own in sorted(facts.items()) if own.looks}
    if len({own.domain for own in facts.values()}) <= 1:
        return []
    home = facts[min(facts)].domain
    away = {r: own for r, own in looked.items() if own.domain != home and own.places}
    return [*_to_themselves(away, facts), *_apart(away), *_nowhere(looked)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many names were looked up, and how many were found."""
    asked = sum(own.asked_count for own in facts.values())
    if not asked:
        return "no other host to look up"
    lost = sum(len(own.unknown) + len(own.slow) for own in facts.values())
    return f"{asked - lost} of {asked} names of other hosts found"


def _to_themselves(away: Mapping[int, Facts], facts: Mapping[int, Facts]) -> list[Finding]:
    guilty = {r: own for r, own in away.items() if len(loopbacks(own.places)) == len(own.places)}
    if not guilty:
        return []
    hosts = names(own.host for own in guilty.values())
    own = guilty[min(guilty)]
    told = f"{own.master} leads to {', '.join(own.places)} on {hosts}, and not to rank 0's host"
    ranks = [r for r in facts if facts[r].domain in {each.domain for each in guilty.values()}]
    title, fix = "MASTER_ADDR leads to the loopback", MASTER.format(hosts=hosts)
    return [_finding(ranks, title, told, fix, Severity.WARNING)]


def _apart(away: Mapping[int, Facts]) -> list[Finding]:
    """Return that hosts find different addresses; they have met, so these all lead there."""
    real = {r: set(own.places) - set(loopbacks(own.places)) for r, own in away.items()}
    found = {rank: places for rank, places in real.items() if places}
    if not found or set.intersection(*found.values()):
        return []
    told = names(f"{away[r].host} ({names(found[r])})" for r in found)
    hosts = names(away[rank].host for rank in found)
    title, fix = "MASTER_ADDR leads to different addresses", MASTER.format(hosts=hosts)
    return [_finding(list(found), title, f"seen from {told}", fix, Severity.INFO)]


def _nowhere(looked: Mapping[int, Facts]) -> list[Finding]:
    lost = {r: own for r, own in looked.items() if own.unknown or own.slow}
    if not lost:
        return []
    missing = names({name for own in lost.values() for name in (*own.unknown, *own.slow)})
    hosts = names(own.host for own in lost.values())
    told = f"{missing} not found within {BUDGET_S:g} s on {hosts}; gloo and NCCL need no names"
    title, fix = "names of hosts lead nowhere", SAME.format(hosts=hosts)
    return [_finding(list(lost), title, told, fix, Severity.INFO)]


def _finding(ranks: list[int], title: str, told: str, fix: str, severity: Severity) -> Finding:
    return Finding(
        title=title,
        message=told,
        fix=fix,
        ranks=tuple(ranks),
        severity=severity,
        confidence=Confidence.MEDIUM,
    )
