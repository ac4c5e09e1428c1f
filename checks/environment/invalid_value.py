"""A variable has a value that its reader does not understand.

Why it matters
    NCCL reads numbers: NCCL_IB_DISABLE=true counts as 0 and disables nothing, NCCL_BUFFSIZE=4M is
    4 bytes, and a level in small letters is passed over, all without a word. torch, for its own
    variables, ends the job with "Invalid value for environment variable".
What to do
    Write the value as shown. Files of variables for docker (--env-file) take quotes as part of
    the value; a shell does not.
"""

from collections.abc import Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.machine.libraries import reading_versions
from ddpcheck.measures.words import brief, listed, spans
from ddpcheck.variables.environ import shown
from ddpcheck.variables.values import fault

# Who has no GPU makes no NCCL group and allocates no GPU memory.
ONLY_ON_GPUS = ("NCCL_", "TORCH_NCCL_", "PYTORCH_", "CUDA_")
TITLES = {
    Severity.ERROR: "a value that ends the job",
    Severity.WARNING: "a value that is not understood",
    Severity.INFO: "a value that would not be understood on a GPU",
}


class Wrong(msgspec.Struct, frozen=True):
    """A variable's value, what is wrong with it, and whether its reader ends the job for it."""

    name: str
    value: str
    told: str
    is_fatal: bool


class Facts(msgspec.Struct, frozen=True):
    """The values that are not understood."""

    host: str
    on_gpu: bool
    wrong: tuple[Wrong, ...]


def probe(ctx: Context) -> Facts:
    """Return the variables of this rank whose values their readers do not understand."""
    versions = reading_versions(on_gpu=ctx.on_gpu)
    faults = {name: fault(name, value, versions) for name, value in sorted(ctx.environ.items())}
    wrong = [
        Wrong(name, brief(shown(name, ctx.environ[name])), each.told, each.is_fatal)
        for name, each in faults.items()
        if each
    ]
    return Facts(ctx.host, ctx.on_gpu, tuple(wrong))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for each severity, with all values that deserve it."""
    ranked: dict[Severity, dict[Wrong, list[int]]] = {}
    for rank in sorted(facts):
        for wrong in facts[rank].wrong:
            severity = _severity(wrong, on_gpu=facts[rank].on_gpu)
            ranked.setdefault(severity, {}).setdefault(wrong, []).append(rank)
    return [_finding(severity, ranked[severity]) for severity in TITLES if severity in ranked]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many values are not understood."""
    count = len({wrong.name for own in facts.values() for wrong in own.wrong})
    return f"values not understood: {count}" if count else "all values can be read"


def _severity(wrong: Wrong, *, on_gpu: bool) -> Severity:
    if wrong.name.startswith(ONLY_ON_GPUS) and not on_gpu:
        return Severity.INFO
    return Severity.ERROR if wrong.is_fatal else Severity.WARNING


def _finding(severity: Severity, values: Mapping[Wrong, list[int]]) -> Finding:
    told = [f"{w.name}={w.value} on rank {spans(who)}: {w.told}" for w, who in values.items()]
    return Finding(
        title=TITLES[severity],
        message=listed(told, "; "),
        fix="correct or unset " + listed(dict.fromkeys(wrong.name for wrong in values)),
        ranks=tuple(sorted({rank for who in values.values() for rank in who})),
        severity=severity,
        confidence=Confidence.HIGH if severity is Severity.ERROR else Confidence.MEDIUM,
    )
