"""A rank's look at the agent above it, by the kernel alone: the store may be in that very process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from ddpcheck.engine.neighbours import HeldProcess
from ddpcheck.launch.elastic import agent_above
from ddpcheck.measures.testimony import Agent, Silence, State

OnSilence: TypeAlias = Callable[[Agent], None] | None

# An agent beats so often in its rendezvous (torch: keep_alive_interval); a debugger stops it for less.
BEAT_S = 5.0
SILENCES = {State.STOPPED: Silence.STOPPED, State.GONE: Silence.GONE}


class AgentAbove:
    """Knows whether one agent is silent; ``on_silence`` is called once in each silence."""

    def __init__(self, agent: Agent, on_silence: OnSilence) -> None:
        self._process = HeldProcess(agent.pid)
        self._process.open()
        self._agent = agent
        self._on_silence = on_silence
        self._is_told = False
        self._seen = agent

    @property
    def silent(self) -> Agent | None:
        """Return the agent if it was silent at the last look."""
        seen = self._seen
        is_silent = seen.silence is Silence.GONE or seen.silent_s >= BEAT_S
        return seen if is_silent else None

    def look(self, passed_s: float) -> None:
        """Look at it, so many seconds after the look before."""
        silence = SILENCES.get(self._process.state)
        if silence is None:
            self._seen, self._is_told = self._agent, False
            return
        since = self._seen.since or time.strftime("%H:%M:%S UTC", time.gmtime())
        silent_s = round(self._seen.silent_s + (passed_s if self._seen.silence else 0.0), 1)
        told = {"silence": silence, "silent_s": silent_s, "since": since}
        self._seen = msgspec.structs.replace(self._agent, **told)
        if self.silent and not self._is_told:
            self._is_told = True
            if self._on_silence:
                self._on_silence(self._seen)

    def close(self) -> None:
        """Let go of it."""
        self._process.close()


def look_above(environ: Mapping[str, str], host: str, on_silence: OnSilence) -> AgentAbove | None:
    """Return the look at the agent that started this rank, or None where there is none."""
    found = agent_above(environ)
    return AgentAbove(Agent(host=host, pid=found.pid), on_silence) if found else None
