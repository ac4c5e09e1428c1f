"""Those that came to the roll call: their seats, whether they can do what was asked, the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ddpcheck.engine.announcements import STOP
from ddpcheck.engine.channel import Channel
from ddpcheck.engine.entries import Present
from ddpcheck.engine.same_settings import difference_of
from ddpcheck.launch.identity import Identity
from ddpcheck.machine.processes import ranks_here
from ddpcheck.report import Run
from ddpcheck.settings import RunSettings

PAUSE_S = 0.01
# A process that has its number is about to write its name.
NAME_S = 0.1
# A rank that is seen to be starting is looked for this often.
LOOK_S = 0.5


def seats_of(claimed: Sequence[int], world_size: int) -> list[int]:
    """Return each member's seat: the rank it claims, or, when claims clash, its place.

    ``claimed`` is in the order of arrival. Claims clash when two are equal or one lies
    outside 0 to ``world_size`` - 1; places then follow the claims, then the arrival.
    """
    if len(set(claimed)) == len(claimed) and all(rank < world_size for rank in claimed):
        return list(claimed)
    order = sorted(range(len(claimed)), key=lambda member: (claimed[member], member))
    return [order.index(member) for member in range(len(claimed))]


class Muster:
    """How long the roll call waits for ranks.

    That is ``roll_s`` (0: the run's deadline), and ``start_s`` more for one seen to be starting.
    """

    roll_s = 0.0
    start_s = 60.0

    def is_one_starting(self, members: Sequence[Present]) -> bool:
        """Return whether a rank of this job that has not come runs on this machine.

        Importing torch takes long on a busy machine, and longer for one rank than for another.
        """
        came = {member.rank for member in members}
        return any(each.rank not in came for each in ranks_here(os.environ))

    def absence(self) -> str:
        """Return what is known of those that are not among the members."""
        return "never came"

    def refusal(self, _members: Sequence[Present]) -> str:
        """Return why these members can never make up the job, or ''."""
        return ""


class RollCall:
    """Waits for the processes of a job, on the leader's channel."""

    def __init__(self, channel: Channel, muster: Muster, world_size: int) -> None:
        self._channel = channel
        self._muster = muster
        self._world_size = world_size

    def call(self, until: float) -> list[Present]:
        """Return those that came: all, or as many as did by ``until``, in monotonic seconds.

        One that is seen to be starting then is waited for a while longer.
        """
        last = until + self._muster.start_s
        while not self._all_came() and not self._channel.has(STOP):
            now = time.monotonic()
            if now > until and now < last and self._muster.is_one_starting(self.members()):
                until = now + LOOK_S
            elif now > until:
                break
            time.sleep(PAUSE_S)
        return self.members()

    def members(self) -> list[Present]:
        """Return who has told its name so far, in the order of arrival."""
        names = self._names()
        self._channel.poll(names, NAME_S)
        told = self._channel.read(self._channel.those_there(names))
        return [entry for entries in told for entry in entries if isinstance(entry, Present)]

    def _all_came(self) -> bool:
        # On a busy machine one may stand for long between taking its number and telling its name.
        names = self._names()
        return len(names) >= self._world_size and self._channel.poll(names, 0.0)

    def _names(self) -> list[str]:
        return [f"member/{member}" for member in range(self._channel.arrivals())]


def described(run_id: str, settings: RunSettings, who: Identity, members: Sequence[Present]) -> Run:
    """Return the record of a run of these members; it begins now, ``who`` leads it."""
    has_gpus = all(member.gpus for member in members)
    auto = "nccl" if has_gpus else "gloo"
    leading = next(member for member in members if member.rank == who.rank)
    return Run(
        id=run_id,
        command=settings.command,
        launcher=who.launcher,
        backend=auto if settings.backend == "auto" else settings.backend,
        profile=settings.profile.value,
        requested_world_size=who.world_size,
        world_size=len(members),
        hosts=list(dict.fromkeys(each.host for each in sorted(members, key=lambda m: m.rank))),
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        duration_s=0.0,
        versions=leading.versions,
        target=settings.target,
        configuration=settings.configuration if settings.configuration.file else None,
    )


def refusal_of(members: Sequence[Present], settings: RunSettings) -> str:
    """Return why these members cannot do what was asked, or ''.

    They cannot where they were asked different things. Where only some of them see a GPU, the run begins: its checks name the others, and the cause.
    """
    if settings.backend != "nccl" or any(member.gpus for member in members):
        return difference_of(members)
    first = min(members, key=lambda member: member.rank)
    return (
        f"--backend nccl: rank {first.rank} on {first.host} sees no GPU ({first.blindness}), nor "
        "does any other; use --backend gloo, or run where torch sees a GPU"
    )
