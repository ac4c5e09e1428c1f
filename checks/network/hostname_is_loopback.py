"""A host's own name leads to its loopback, which gloo would hand to the other hosts.

Why it matters
    gloo looks up the host's own name and tells the result to all ranks. Where /etc/hosts says
    "127.0.1.1 node1", or nothing answers for node1, that is a loopback address: a rank on another
    host that connects to it reaches itself ("connectFullMesh failed ... remote=[127.0.1.1]"), and
    the rest hang. Of two hosts the one with the higher address connects: one such host can work
    among 10.x.x.x addresses, and fail among 192.168.x.x, or with a second one of its kind.
What to do
    export GLOO_SOCKET_IFNAME with the interface that leads to the other hosts, or let the name
    lead to the host's real address in /etc/hosts. Training over NCCL alone needs neither, but
    scripts often make a gloo group beside it.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.network.choice import GLOO_NAME
from ddpcheck.network.standing import (
    Standing,
    are_several_hosts,
    callers_fail,
    export,
    names,
    standing,
)

CONSEQUENCES = {
    Severity.ERROR: "gloo hands that to the other hosts, which then connect to themselves",
    Severity.WARNING: "gloo hands that to the other hosts; it works only because their addresses "
    "are lower, so that this host connects to them",
    Severity.INFO: "NCCL does not use the name, but a gloo group beside it would",
}


class Facts(msgspec.Struct, frozen=True):
    """How a rank stands in the network; GLOO_SOCKET_IFNAME makes the host's name not matter."""

    standing: Standing
    gloo_setting: str


def probe(ctx: Context) -> Facts:
    """Return where this host's own name leads to on this host."""
    ctx.require_meeting()
    found = standing(ctx.host, ctx.backend, ctx.environ)
    if found is None:
        raise Skip("the kernel tells no interfaces")
    return Facts(found, ctx.environ.get(GLOO_NAME, ""))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return the hosts whose names lead to their loopback: the fatal ones, and the others."""
    standings = {rank: own.standing for rank, own in facts.items()}
    if not are_several_hosts(standings):
        return []
    called = callers_fail(standings)
    guilty: dict[Severity, dict[int, Standing]] = {}
    for rank, own in sorted(facts.items()):
        # gloo takes a setting of one letter for none.
        if own.standing.own.is_loopback and len(own.gloo_setting) <= 1:
            severity = _severity(own.standing, called)
            guilty.setdefault(severity, {})[rank] = own.standing
    return [_finding(severity, ranks) for severity, ranks in guilty.items()]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return where the names of the hosts lead to."""
    owns = {own.standing.host: own.standing.own.usable for own in facts.values()}
    return names(f"{host} is {address or 'not known in time'}" for host, address in owns.items())


def _severity(own: Standing, called: set[str]) -> Severity:
    if own.backend == "nccl":
        return Severity.INFO
    return Severity.ERROR if own.domain in called else Severity.WARNING


def _finding(severity: Severity, guilty: Mapping[int, Standing]) -> Finding:
    told = names({_told(own) for own in guilty.values()})
    return Finding(
        title="a host's own name leads to its loopback",
        message=f"{told}: {CONSEQUENCES[severity]}",
        fix=f"{export(guilty.values(), GLOO_NAME)}; or let the name lead to an address of the "
        "host itself in /etc/hosts",
        ranks=tuple(guilty),
        severity=severity,
    )


def _told(own: Standing) -> str:
    if own.own.found:
        return f"{own.host} resolves its own name to {' and '.join(own.own.found)}"
    return f"{own.host} cannot resolve its own name, for which gloo takes {own.own.usable}"
