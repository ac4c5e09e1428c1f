"""Those that came to the roll call: their seats, whether they can do what was asked, the run."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ddpcheck.engine.entries import Present
from ddpcheck.launch.identity import Identity
from ddpcheck.machine.processes import ranks_here
from ddpcheck.report import Run
from ddpcheck.settings import RunSettings


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
    )


def refusal_of(members: Sequence[Present], settings: RunSettings) -> str:
    """Return why these members cannot do what was asked, or ''.

    Where only some of them see a GPU, the run begins: its checks name the others, and the cause.
    """
    if settings.backend != "nccl" or any(member.gpus for member in members):
        return ""
    first = min(members, key=lambda member: member.rank)
    return (
        f"--backend nccl: rank {first.rank} on {first.host} sees no GPU ({first.blindness}), nor "
        "does any other; use --backend gloo, or run where torch sees a GPU"
    )
