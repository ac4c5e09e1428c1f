"""Start ranks on several hosts: torch's elastic agent does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

from ddpcheck.launch.exit_codes import VARIABLE, exit_code_of_ranks, kept_exit_codes
from ddpcheck.launch.nodes import meet_nodes
from ddpcheck.settings import LaunchOptions


def launch_with_agent(
    options: LaunchOptions, nproc: int, arguments: Sequence[str], deadline_s: float
) -> int:
    """Run ``ddpcheck ARGUMENTS`` in this host's share of the ranks; return the exit code.

    Every host must run the same command, each with its own --node-rank. Raises LaunchError when
    the hosts do not meet within ``deadline_s``: torch's agents would wait for each other, mute.
    The exit code is that of the ranks; the agent's own would be 1 for every failure.
    """
    meet_nodes(options, deadline_s)
    command = [*agent_command(options, nproc), "-m", "ddpcheck", *arguments]
    with kept_exit_codes() as codes:
        environment = agent_environment(os.environ) | {VARIABLE: str(codes)}
        with subprocess.Popen(command, env=environment) as agent, _sigterm_for(agent):
            ended = agent.wait()
        return exit_code_of_ranks(codes, ended)


@contextmanager
def _sigterm_for(agent: subprocess.Popen[bytes]) -> Generator[None]:
    """Let SIGTERM reach the agent, which has its ranks come to their end: they would train on.

    Ctrl-C reaches it by itself, as everything in front of a terminal.
    """

    def pass_on(number: int, _frame: FrameType | None) -> None:
        agent.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def agent_command(options: LaunchOptions, nproc: int) -> list[str]:
    """Return the agent's command line for these options."""
    rendezvous = (
        {"rdzv-endpoint": options.rdzv_endpoint}
        if options.rdzv_endpoint
        else {"master-addr": options.master_addr, "master-port": options.master_port}
    )
    values = {
        "nnodes": options.nnodes,
        "nproc-per-node": nproc,
        "node-rank": options.node_rank,
        "rdzv-backend": options.rdzv_backend,
        "rdzv-id": options.rdzv_id,
        **rendezvous,
    }
    flags = [f"--{name}={value}" for name, value in values.items()]
    return [sys.executable, "-m", "torch.distributed.run", *flags]


def agent_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the agent: one thread a rank, as torchrun says it does."""
    return {"OMP_NUM_THREADS": "1", **environ}
