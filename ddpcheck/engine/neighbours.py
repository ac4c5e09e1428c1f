"""The other ranks on this machine, watched through the kernel: it knows when a process ends."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ddpcheck.engine.descriptors import with_news
from ddpcheck.engine.stacks import ASK, answers
from ddpcheck.launch.endings import ending
from ddpcheck.measures.testimony import State

# Each rank watches so many that came after it, in a ring: enough that every one is watched by
# several, and few enough for the descriptors of a rank.
WATCHED_COUNT = 16


def machine() -> str:
    """Return what the processes have in common that can see each other by pid."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()


@dataclass
class HeldProcess:
    """One process, held by a descriptor that no other process can take over."""

    pid: int
    descriptor: int | None = field(default=None, kw_only=True)

    def open(self) -> bool:
        """Hold on to the process; return whether it is there."""
        try:
            self.descriptor = os.pidfd_open(self.pid)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go of the process."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    @property
    def state(self) -> State:
        """Return how the process stands, as the kernel sees it: silent when it lives."""
        if self.descriptor is not None and with_news([self.descriptor], 0.0):
            return State.GONE
        try:
            status = psutil.Process(self.pid).status()
        except psutil.NoSuchProcess:
            return State.GONE
        if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return State.GONE
        stopped = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
        return State.STOPPED if status in stopped else State.SILENT


@dataclass
class Neighbour(HeldProcess):
    """Another rank of this machine."""

    member: int

    def ask_for_stack(self) -> None:
        """Have the process write its Python stacks to its file, where it would."""
        if self.descriptor is not None and answers(self.pid):
            with suppress(OSError):
                signal.pidfd_send_signal(self.descriptor, ASK)

    def end(self) -> None:
        """End the process, which has been found not to end by itself."""
        if self.descriptor is not None:
            with suppress(OSError):
                signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)


@dataclass
class Neighbours:
    """Those that this rank watches; ``gone`` are the members whose process has ended."""

    _by_descriptor: dict[int, Neighbour] = field(default_factory=dict[int, Neighbour])

    def watch(self, member: int, mates: list[tuple[int, int]]) -> list[Neighbour]:
        """Watch those (member, pid) that follow this member; return who is gone already.

        ``mates`` are all on this machine, itself among them, in the order of their coming.
        """
        place = next((at for at, mate in enumerate(mates) if mate[0] == member), len(mates))
        ring = [*mates[place + 1 :], *mates[:place]][:WATCHED_COUNT]
        known = {each.member for each in self._by_descriptor.values()}
        gone: list[Neighbour] = []
        for other, pid in ring:
            neighbour = Neighbour(pid, other)
            if other in known:
                continue
            if neighbour.open() and neighbour.descriptor is not None:
                self._by_descriptor[neighbour.descriptor] = neighbour
            else:
                gone.append(neighbour)
        return gone

    @property
    def descriptors(self) -> list[int]:
        """Return a descriptor for each living neighbour; it becomes readable at its end."""
        return list(self._by_descriptor)

    def ended(self, ready: Iterable[int]) -> list[Neighbour]:
        """Return, and forget, the neighbours whose descriptors are ready."""
        return [self._by_descriptor.pop(each) for each in ready if each in self._by_descriptor]

    def living(self) -> list[Neighbour]:
        """Return those whose process has not ended."""
        return list(self._by_descriptor.values())


def exit_of(pid: int) -> str:
    """Return how a process that nobody has waited for yet ended: a signal or an exit code, or ''.

    Source: proc(5), the last field of /proc/PID/stat, which is a wait status.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    status = int(fields[-1])
    return "" if fields[0] not in "ZX" else ending(os.waitstatus_to_exitcode(status))
