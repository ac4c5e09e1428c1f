"""Agents of torchrun that are silent, in words."""

from __future__ import annotations

from ddpcheck.measures.testimony import Agent, Silence

HOW = {
    Silence.STOPPED: "is stopped by a signal",
    Silence.GONE: "is gone, and its ranks live on,",
}
FIXES = {
    Silence.STOPPED: "let it go on with kill -CONT {pid} on {host}; Ctrl-Z in torchrun's terminal "
    "stops the agent alone, and fg lets it go on",
    Silence.GONE: "end what is left of the job's ranks on {host} and start torchrun there anew; see "
    "in dmesg whether the out-of-memory killer ended it",
}
# Agents take a silent one off their list, and start nothing anew for that.
# https://github.com/pytorch/pytorch/issues/111646
LEFT_ALONE = "nobody starts its ranks again or ends them, and the other agents do not act on it"

LOST_HOST = (
    "see whether that host is up and can be reached. torchrun's other agents do not act on a host "
    "that is lost: init_process_group(timeout=...) lets the ranks that wait for it fail, and then "
    "their agents meet without it"
)


def silence_of(agent: Agent) -> str:
    """Return what is wrong with a silent agent, and since when."""
    since = f" since {agent.since}" if agent.since else ""
    return f"torchrun's agent on {agent.host} (pid {agent.pid}) {HOW[agent.silence]}{since}"


def fix_of(agent: Agent) -> str:
    """Return what lets a silent agent, or its job, go on."""
    return FIXES[agent.silence].format(pid=agent.pid, host=agent.host)
