"""Two launchers say different things about the same process.

Why it matters
    A script that exports RANK and WORLD_SIZE inside srun or mpirun runs with its own numbers, while
    libraries that read Slurm's or MPI's use those: parts of one process then take themselves for
    different ranks, or for members of jobs of different size, and the job hangs or shares GPUs.
What to do
    Let one of them number the ranks: unset the variables that the launch script exports, or derive
    them from the launcher's (RANK=$SLURM_PROCID, WORLD_SIZE=$SLURM_NTASKS) in every task.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.launch.claims import Claim, claims
from ddpcheck.measures.words import listed

FIELDS = {"world_size": "the number of ranks", "rank": "the rank", "local_rank": "the local rank"}
FIX = (
    "number the ranks in one place: unset RANK, WORLD_SIZE and LOCAL_RANK in the launch script, or "
    "set them from the launcher's own variables in every task"
)


class Facts(msgspec.Struct, frozen=True):
    """What each launcher says of the process, first the one that counts."""

    host: str
    claims: list[Claim]


def probe(ctx: Context) -> Facts:
    """Return the claims in this process's environment."""
    return Facts(ctx.host, claims(ctx.environ))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each thing that launchers disagree on."""
    told = _without_parents(facts)
    found = (_finding(told, field) for field in FIELDS)
    return [finding for finding in found if finding is not None]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return who started the ranks, as they say."""
    names = sorted({claim.launcher for own in facts.values() for claim in own.claims})
    known = ", ".join(name for name in names if name != "environment")
    return f"started by {known}" if known else "started with torch's own variables"


def _without_parents(facts: Mapping[int, Facts]) -> dict[int, Facts]:
    """Return the facts without what is said of a process that started several ranks.

    A script in one task a node (torch.multiprocessing.spawn, say) hands that task's variables on
    to its ranks, and numbers them itself.
    """
    uses = Counter((each.launcher, each.rank) for own in facts.values() for each in own.claims[1:])
    parents = {launcher for (launcher, _), count in uses.items() if count > 1}
    return {
        rank: Facts(own.host, [each for each in own.claims if each.launcher not in parents])
        for rank, own in facts.items()
    }


def _finding(facts: Mapping[int, Facts], field: str) -> Finding | None:
    odd = {rank: told for rank, own in sorted(facts.items()) if (told := _conflict(own, field))}
    if not odd:
        return None
    # Ranks in another order than the launcher's may be meant; another number of them cannot.
    size = field == "world_size"
    return Finding(
        title=f"launchers disagree on {FIELDS[field]}",
        message=listed((f"rank {r} ({facts[r].host}): {odd[r]}" for r in odd), "; "),
        fix=FIX,
        ranks=tuple(odd),
        severity=Severity.WARNING if size else Severity.INFO,
        confidence=Confidence.MEDIUM,
    )


def _conflict(own: Facts, field: str) -> str:
    said = {claim.launcher: getattr(claim, field) for claim in own.claims}
    numbers = {launcher: text for launcher, text in said.items() if text.isdecimal()}
    if len({int(text) for text in numbers.values()}) <= 1:
        return ""
    return ", ".join(f"{text} by {_named(launcher)}" for launcher, text in numbers.items())


def _named(launcher: str) -> str:
    return "torch's variables" if launcher == "environment" else launcher
