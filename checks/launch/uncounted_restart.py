"""An agent of torchrun was replaced, and not all agents count that as a restart.

Why it matters
    Each agent holds --max-restarts by itself, and one that is started anew begins at 0. Where an
    agent leaves and another one comes, those that stay count a restart if their ranks failed first,
    and none if they were told to meet anew. So a job may end at once, or be restarted for ever.

What to do
    Let --max-restarts be what one host may need. Bound what the whole job may need where its agents
    are started: the retries of the scheduler's job or of the pod.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed

COUNT = "TORCHELASTIC_RESTART_COUNT"
MOST = "TORCHELASTIC_MAX_RESTARTS"
AGENTS = "GROUP_WORLD_SIZE"
ISSUE = "https://github.com/pytorch/pytorch/issues/147064"


class Start(msgspec.Struct, frozen=True):
    """One start of an agent's ranks: how many restarts it counted by then, among so many agents.

    ``at`` is Unix time in seconds.
    """

    count: int
    agents: int
    at: float


class Facts(msgspec.Struct, frozen=True):
    """The agent above this rank and its starts, told by the first rank below each agent.

    ``since`` is when the agent was started, in seconds of Unix time; it may restart ``most`` times.
    """

    agent: str
    since: float = 0.0
    most: int = 0
    now: Start | None = None
    before: Start | None = None


class Observer:
    """Notes this start for the next one, and what was noted in the one before."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._facts = Facts("")
        told = [ctx.environ.get(name, "") for name in (COUNT, MOST, AGENTS)]
        if ctx.watches and ctx.local_rank == 0 and all(each.isdigit() for each in told):
            count, most, agents = map(int, told)
            self._facts = self._noted(Start(count, agents, time.time()), most)

    def facts(self) -> Facts:
        """Return what was noted; raises Skip where no script is watched."""
        self._ctx.require_watch()
        return self._facts

    def _noted(self, now: Start, most: int) -> Facts:
        from ddpcheck.watch.attempts import agent_of, start_before

        told = start_before(self._ctx.environ, msgspec.json.encode(now).decode())
        before = msgspec.json.decode(told, type=Start) if told else None
        agent = agent_of(self._ctx.environ)
        name = f"{self._ctx.host} (pid {agent.pid})"
        return Facts(name, agent.create_time(), most, now, before)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return an info where an agent took the place of one that left, with what each counts."""
    told = {rank: own for rank, own in sorted(facts.items()) if own.now is not None}
    stayed = {rank: own.before for rank, own in told.items() if own.before is not None}
    were = max((before.agents for before in stayed.values()), default=0)
    last = max((before.at for before in stayed.values()), default=float("inf"))
    # Who noted nothing may have been there, and ended before it came so far.
    came = [rank for rank, own in told.items() if own.since > last]
    if not came or were <= len(told) - len(came):
        return []
    counted = [
        told[rank].agent for rank, before in stayed.items() if _count(told[rank]) > before.count
    ]
    by = f"on {listed(counted)} only" if counted else "by no agent"
    counts = listed((f"{own.agent} {_count(own)} of {own.most}" for own in told.values()), "; ")
    return [
        Finding(
            title=f"a change of the agents counted as a restart {by}",
            message=f"torchrun's agent on {listed(told[rank].agent for rank in came)} took the place "
            f"of one that had left, and the ranks were started again. Restarts counted now: {counts}",
            fix="--max-restarts holds for each agent by itself: bound how often agents are started "
            "where you start them, by the retries of the scheduler's job or of the pod",
            ranks=tuple(told),
            severity=Severity.INFO,
            confidence=Confidence.HIGH,
            evidence={"issue": ISSUE},
        )
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how often ranks were started again, as each agent counts."""
    counts = [_count(own) for own in facts.values() if own.now is not None]
    return f"restarts counted by agents: {listed(counts)}" if counts else "no torchrun"


def _count(own: Facts) -> int:
    return own.now.count if own.now is not None else 0
