"""An agent of torchrun is silent while its ranks, or those of other agents, still run.

Why it matters
    Nobody starts the ranks of that host again, or ends them. The other agents take the silent one
    off their list after 15 s, and do nothing until a rank of their own fails.

What to do
    Stopped: kill -CONT, or fg where Ctrl-Z has stopped torchrun. Gone: end what is left of its
    ranks, and start torchrun there anew; dmesg tells of the out-of-memory killer.
"""

from __future__ import annotations

from collections.abc import Mapping

from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.agents import LEFT_ALONE, fix_of, silence_of
from ddpcheck.measures.testimony import Agent, Testimony
from ddpcheck.measures.words import listed, spans

Facts = Testimony


def judge(facts: Mapping[int, Testimony]) -> list[Finding]:
    """Return a warning that names each silent agent, and the ranks that it started."""
    silent: dict[tuple[str, int], Agent] = {}
    ranks: list[int] = []
    for rank, each in sorted(facts.items()):
        if each.agent is not None and each.agent.silence:
            silent.setdefault((each.agent.host, each.agent.pid), each.agent)
            ranks.append(rank)
    if not silent:
        return []
    agents = list(silent.values())
    return [
        Finding(
            title=f"the agent of rank {spans(ranks)} is silent",
            message=f"{listed(map(_told, agents), '; ')}: {LEFT_ALONE}",
            fix=fix_of(agents[0]),
            ranks=tuple(ranks),
            severity=Severity.WARNING,
            evidence={"agents": {f"{each.host} {each.pid}": each.silence for each in agents}},
        )
    ]


def _told(agent: Agent) -> str:
    lasted = f", for {agent.silent_s:.0f} s" if agent.silent_s else ""
    return f"{silence_of(agent)}{lasted}"
