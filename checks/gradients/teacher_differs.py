"""A model that the training uses, and does not train, is not the same on all ranks.

Why it matters
    A teacher, an average of the weights or a frozen encoder makes targets or inputs. Where rank 0
    alone keeps it up to date, or each rank made it with a seed of its own, ranks learn from unlike
    targets: replicas stay alike, nothing raises, and the loss means something else on each rank.

What to do
    Update it on all ranks, after the same steps, from the wrapped model's weights; load or seed it
    alike, or broadcast it from rank 0 before the training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.measures.drift import come_together
from ddpcheck.measures.peers import grouped
from ddpcheck.measures.sketch import first_apart
from ddpcheck.measures.words import counted, spans

Ranks = tuple[int, ...]
# One call may be a look at it.
LEAST_CALLS_COUNT = 2
# One that is loaded or made anew once is no average.
LEAST_MOMENTS_COUNT = 3
FIX = "update it on all ranks after the same steps, or broadcast it from rank 0 before it is used"


class Used(msgspec.Struct, frozen=True):
    """A model that was called, at ``location`` first, and its norms at the start and after each step.

    ``is_copy`` is whether its parameters have the shapes of those that are trained, in order.
    """

    name: str
    calls: int
    norms: tuple[str, ...]
    location: Location | None = None
    is_copy: bool = False

    @property
    def is_average(self) -> bool:
        """Return whether the script makes it of the trained model, step by step."""
        return self.is_copy and len(set(self.norms)) > LEAST_MOMENTS_COUNT


class Facts(msgspec.Struct, frozen=True):
    """The models that no optimizer has, and that are no part of the one in DDP, whose ranks these are."""

    group: Ranks
    models: tuple[Used, ...]


class Observer:
    """Follows what is called beside the model."""

    def __init__(self, ctx: Context) -> None:
        from ddpcheck.watch.called_beside import CalledBeside

        self._ctx = ctx
        self._beside = CalledBeside()
        self.parts = (self._beside,) if ctx.watches else ()

    def facts(self) -> Facts:
        """Return what was called; raises Skip where nothing was, or there is no DDP."""
        self._ctx.require_watch()
        used = tuple(Used(*each) for each in self._beside.close())
        if not self._beside.group or not used:
            raise Skip("no model was called beside one in DistributedDataParallel")
        return Facts(self._beside.group, used)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for each model that differs on the ranks of a group, all of which call it."""
    found: list[Finding] = []
    for group, members in grouped({rank: own.group for rank, own in facts.items()}).items():
        if len(members) == len(group) > 1:
            abreast = zip(*(facts[rank].models for rank in members), strict=False)
            found += [each for used in abreast if (each := _of_model(group, used)) is not None]
    return found


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many models were compared."""
    return (
        f"{counted(len(next(iter(facts.values())).models), 'model')} called beside the wrapped one"
    )


def _of_model(group: Ranks, used: Sequence[Used]) -> Finding | None:
    is_one = len({each.name for each in used}) == 1
    if not is_one or min(each.calls for each in used) < LEAST_CALLS_COUNT:
        return None
    norms = {rank: each.norms for rank, each in zip(group, used, strict=True)}
    since = first_apart(norms)
    if since is None or come_together(norms) or _are_alike_by_now(norms):
        return None
    was_alike = since > 0
    is_sure = was_alike or all(each.is_average for each in used)
    when = f"from step {since - 1} on, and was the same before" if was_alike else "from the start"
    return Finding(
        title=f"{used[0].name}, which the training uses, is not the same on all ranks",
        message=f"it differs between ranks {spans(group)} {when}; each of them has called it "
        f"{min(each.calls for each in used)} times or more, and no optimizer trains it"
        + ("" if is_sure else "; each rank may be meant to have its own"),
        fix=FIX,
        ranks=group,
        severity=Severity.WARNING if is_sure else Severity.INFO,
        confidence=Confidence.MEDIUM if is_sure else Confidence.LOW,
        location=used[0].location,
        evidence={"step": since - 1},
    )


def _are_alike_by_now(norms: Mapping[int, Sequence[str]]) -> bool:
    """Return whether they are the same at the last moment that all tell of: handed out late, say."""
    last = min(map(len, norms.values())) - 1
    return len({each[last] for each in norms.values()}) == 1
