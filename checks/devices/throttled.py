"""A GPU is slowed down by heat or by its power supply.

Why it matters
    All ranks wait for the slowest in every step: one GPU that runs at half its clock because
    a fan, a power supply or the cooling of its rack failed halves the speed of the whole job,
    and nothing says so. Low clocks of an idle GPU, and its power limit under load, are normal.
What to do
    Look at nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on the host; see to its cooling
    (fans, inlet temperature, dust) and its power (supplies, cables, power brake). Take the
    GPU out of the job until then.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ddpcheck.check import Context, Skip
from ddpcheck.finding import Finding, Severity
from ddpcheck.machine.gpu import Speed, gpu_of, speed_of
from ddpcheck.measures.words import listed

SIZE = 4096  # rows and columns: more work than a GPU's processors can do at once
# The hardware's reasons come with this general one, which then adds nothing.
GENERAL = "hardware slowdown"
# Our choice: limits are rounded to clock steps and to watts; less is not worth a word.
LOWERED_RATIO = 0.95
COOL = "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; check the cooling and power of the host"
RESET_LIMITS = "if that is not meant: nvidia-smi -i ID --reset-applications-clocks, -pl DEFAULT"


class Facts(msgspec.Struct, frozen=True):
    """The speed of this rank's GPU at work: clocks in MHz, limits in mW."""

    host: str
    pci: str
    speed: Speed


def probe(ctx: Context) -> Facts:
    """Return what slows this rank's GPU while it works, with its temperature and clocks."""
    ctx.require_gpu()
    gpu = gpu_of(ctx.device)
    if isinstance(gpu, str):
        raise Skip(gpu)
    if gpu.speed.slowdowns is None:
        raise Skip("the driver does not tell what slows the GPU")
    import torch

    from ddpcheck.target.device_speed import seen_at_work

    speeds = seen_at_work(ctx.device, SIZE, lambda: speed_of(ctx.device))
    torch.cuda.empty_cache()
    return Facts(ctx.host, gpu.pci, lasting(speeds))


def lasting(speeds: Sequence[Speed]) -> Speed:
    """Return the last speed, with those slowdowns that were there at every look.

    A change of clocks is one for a moment (NVML API Reference, nvmlClocksEventReasonHwSlowdown).
    """
    kept = set.intersection(*(set(each.slowdowns or ()) for each in speeds))
    slowdowns = tuple(reason for reason in speeds[-1].slowdowns or () if reason in kept)
    return msgspec.structs.replace(speeds[-1], slowdowns=slowdowns)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return a finding for the GPUs that are slowed, and one for those with lowered limits."""
    slowed = {rank: _slowed(own.speed) for rank, own in sorted(facts.items())}
    lowered = {rank: ", ".join(_lowered(own.speed)) for rank, own in sorted(facts.items())}
    return [
        *_finding(facts, slowed, Severity.WARNING, "a GPU is slowed down", COOL),
        *_finding(facts, lowered, Severity.INFO, "a GPU's limits were lowered", RESET_LIMITS),
    ]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return the highest temperature."""
    known = [own.speed.temperature_c for own in facts.values()]
    warmest = max((each for each in known if each is not None), default=None)
    return f"at most {warmest} C" if warmest is not None else ""


def _slowed(speed: Speed) -> str:
    reasons = list(speed.slowdowns or ())
    if len(reasons) > 1 and GENERAL in reasons:
        reasons.remove(GENERAL)
    if not reasons:
        return ""
    return (
        f"{', '.join(reasons)} at {_value(speed.temperature_c)} C, "
        f"{_value(speed.clock_mhz)} of {_value(speed.max_clock_mhz)} MHz"
    )


def _lowered(speed: Speed) -> Iterator[str]:
    """Yield the limits below what the maker sets: boost goes beyond the default clock."""
    limits = (
        ("clock", "MHz", speed.set_clock_mhz, speed.default_clock_mhz),
        ("power", "mW", speed.power_limit_mw, speed.default_power_limit_mw),
    )
    for what, unit, limit, default in limits:
        if limit is not None and default is not None and limit < default * LOWERED_RATIO:
            yield f"{what} limit {limit} {unit}, {default} by default"


def _value(number: int | None) -> str:
    return "?" if number is None else str(number)


def _finding(
    facts: Mapping[int, Facts], told: Mapping[int, str], severity: Severity, title: str, fix: str
) -> Iterator[Finding]:
    ranks = [rank for rank, words in told.items() if words]
    gpus = (f"rank {r} ({facts[r].host}, GPU {facts[r].pci}): {told[r]}" for r in ranks)
    if ranks:
        yield Finding(
            title=title,
            message=listed(gpus, "; "),
            fix=fix,
            ranks=tuple(ranks),
            severity=severity,
        )
