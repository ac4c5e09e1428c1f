"""The run of ranks that a script starts: where they meet, and how the roll is called."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Present
from ddpcheck.engine.neighbours import exit_of
from ddpcheck.engine.roll import Muster
from ddpcheck.launch.endings import ending
from ddpcheck.launch.identity import Identity
from ddpcheck.launch.local import LOOPBACK
from ddpcheck.launch.meeting import join_store, key_prefix
from ddpcheck.launch.stores import PrefixStore
from ddpcheck.settings import WatchSettings

LAUNCHER = "script"
# The processes that the script has started, by their pids.
STARTED = "started"
# How many there were when the script began to wait for some.
WAITS = "waits"
JOIN_S = 60.0
LOOK_S = 0.5
# One that does not wait in a way that is known has started all within this time.
STARTS_S = 10.0
# One that lives may prepare so long: the others' own rendezvous waits for it, by torch's default.
PREPARES_S = 1800.0


@dataclass(frozen=True)
class Job:
    """What a process needs to know to become a rank; ``port`` is that of the run's store."""

    settings: WatchSettings
    run_id: str
    port: int

    def identity(self, rank: int, size: int) -> Identity:
        """Return who a process is that the script has made this rank."""
        local = os.environ.get("LOCAL_RANK", "")
        return Identity(
            rank=rank,
            local_rank=int(local) if local.isdecimal() else rank,
            world_size=size,
            host=socket.gethostname(),
            master_addr=LOOPBACK,
            master_port=self.port,
            launcher=LAUNCHER,
            store_is_hosted=True,
            attempt="0",
        )

    def channel(self) -> Channel:
        """Return a channel of one's own; raises LaunchError when there is no store."""
        who = self.identity(0, 1)
        return Channel(PrefixStore(key_prefix(who), join_store(who, JOIN_S)))

    @property
    def run_dir(self) -> Path:
        """Return where the run's files are."""
        return Path(self.settings.report_dir).absolute() / self.run_id


class StartedByScript(Muster):
    """The roll call of processes that a script starts: each may have to prepare before it comes."""

    roll_s = LOOK_S
    start_s = PREPARES_S

    def __init__(self, job: Job) -> None:
        self._job = job
        self._channel: Channel | None = None
        self._until = time.monotonic() + STARTS_S

    def is_one_starting(self, members: Sequence[Present]) -> bool:
        """Return whether one lives that has not come, or may be started yet."""
        came = {member.pid for member in members}
        started = self._started()
        if any(_lives(pid) for pid in started if pid not in came):
            return True
        waits = self._told().heard(WAITS) == str(len(started))
        return not waits and time.monotonic() < self._until

    def refusal(self, members: Sequence[Present]) -> str:
        """Return what to do when these can never be the whole group."""
        size = max(member.world_size for member in members)
        ranks = [member.rank for member in members]
        twice = next((rank for rank in ranks if ranks.count(rank) > 1), None)
        if twice is not None:
            return f"two processes that the script has started say they are rank {twice} of {size}"
        others = set(self._started()) - {member.pid for member in members}
        lost = [pid for pid in others if self._end_of(pid) != ending(0)]
        if len(members) >= size or lost:
            return ""
        return (
            f"the script makes a group of {size} ranks, and has started {len(members)} of them here: "
            "for ranks on several hosts use torchrun --nnodes ... -m ddpcheck watch SCRIPT ARGS"
        )

    def absence(self) -> str:
        """Return how those ended that the script has started, and that have made no group."""
        ends = sorted(
            {how for pid in self._started() if (how := self._end_of(pid)) != ending(0)} - {""}
        )
        how = f": of those that the script has started, one ended by {', '.join(ends)}"
        return f"never made its process group{how if ends else ''}"

    def _end_of(self, pid: int) -> str:
        """Return how a process ended; the script may not have waited for it yet."""
        return self._told().heard(f"exit/{pid}") or exit_of(pid)

    def _started(self) -> list[int]:
        return [int(pid) for pid in self._told().notes(STARTED)]

    def _told(self) -> Channel:
        # Asked by the leader's thread, which needs a client of its own.
        if self._channel is None:
            self._channel = self._job.channel()
        return self._channel


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
