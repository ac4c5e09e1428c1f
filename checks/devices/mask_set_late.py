"""The script sets CUDA_VISIBLE_DEVICES when it may be too late.

Why it matters
    The CUDA driver reads CUDA_VISIBLE_DEVICES once, at its first use. A script that sets it later
    sees every GPU all the same, and all its ranks compute on GPU 0. The first use is easy to miss:
    torch.cuda.is_available() is one, and so may be the import of a library.
What to do
    Set the variable in the launch script, or above the first import; or leave it alone and call
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"])).
"""

import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.machine.driver import gpus_in_driver
from ddpcheck.measures.script import Place, shown, text_of
from ddpcheck.measures.script_devices import MASK, masks_set_late

FIX = f"set {MASK} in the launch script, or above the first import of the script"


class Facts(msgspec.Struct, frozen=True):
    """Where the script sets the mask, its values (None: not set), and how many GPUs CUDA shows."""

    script: str
    on_gpu: bool
    places: tuple[Place, ...]
    mask_at_start: str | None
    mask: str | None
    gpus: int | None

    @property
    def is_ignored(self) -> bool:
        """Return whether the mask changed in this process, and more GPUs are seen than it shows."""
        shows = len([entry for entry in (self.mask or "").split(",") if entry.strip()])
        changed = self.mask is not None and self.mask != self.mask_at_start
        return self.on_gpu and changed and (self.gpus or 0) > shows


def probe(ctx: Context) -> Facts:
    """Read the script, and compare its mask with what CUDA shows."""
    if not ctx.script:
        raise Skip("the target is built in: there is no script of yours to read")
    return Facts(
        script=ctx.script,
        on_gpu=ctx.on_gpu,
        places=tuple(masks_set_late(text_of(ctx.script))),
        mask_at_start=ctx.environ.get(MASK),
        mask=os.environ.get(MASK),
        gpus=gpus_in_driver() if ctx.on_gpu else None,
    )


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return where the script is late, and whether that was seen to matter."""
    told: dict[tuple[str, tuple[Place, ...], bool], list[int]] = {}
    for rank, own in sorted(facts.items()):
        told.setdefault((own.script, own.places, own.is_ignored), []).append(rank)
    found: list[Finding] = []
    for (_, places, ignored), ranks in told.items():
        after_cuda = [place for place in places if place.note.startswith("CUDA")]
        after_import = [place for place in places if place not in after_cuda]
        if after_cuda or ignored:
            found.append(_certain(facts, ranks, after_cuda or after_import, ignored))
        elif after_import:
            found += _possible(facts, ranks, after_import)
    return found


def _certain(
    facts: Mapping[int, Facts], ranks: Sequence[int], places: Sequence[Place], ignored: bool
) -> Finding:
    own = facts[ranks[0]]
    seen = f"{MASK} became '{own.mask}', and CUDA still shows {own.gpus} GPU(s)"
    read = f"{shown(places)} comes after what reads it: {places[0].note}" if places else ""
    return Finding(
        title=f"{MASK} is set after CUDA has read it",
        message="; ".join([read] * bool(places) + [seen] * ignored),
        fix=FIX,
        ranks=tuple(ranks),
        severity=Severity.WARNING if own.on_gpu else Severity.INFO,
        confidence=Confidence.HIGH if ignored else Confidence.MEDIUM,
        location=Location(own.script, places[0].line) if places else None,
    )


def _possible(
    facts: Mapping[int, Facts], ranks: Sequence[int], places: Sequence[Place]
) -> Iterator[Finding]:
    yield Finding(
        title=f"{MASK} is set after an import that may use CUDA",
        message=f"{shown(places)} comes after {places[0].note}: it counts only while nothing has "
        "used CUDA",
        fix=FIX,
        ranks=tuple(ranks),
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
        location=Location(facts[ranks[0]].script, places[0].line),
    )
