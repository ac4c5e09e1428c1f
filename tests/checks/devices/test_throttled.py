from collections.abc import Callable

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import throttled
from ddpcheck.checks.devices.throttled import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu, Speed
from ddpcheck.target import device_speed

# An idle H200: low clocks, which are normal.
IDLE = Speed((), 31, 345, 1980, 1980, 1980, 700_000, 700_000)


def gpu(**changed: object) -> Facts:
    return Facts("node0", "0000:17:00.0", msgspec.structs.replace(IDLE, **changed))


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(gpu(), id="idle"),
        pytest.param(gpu(temperature_c=85), id="warm"),
        pytest.param(gpu(set_clock_mhz=None, default_clock_mhz=None), id="no clocks to set"),
        pytest.param(gpu(default_clock_mhz=1275, set_clock_mhz=1275), id="boost beyond default"),
        pytest.param(gpu(power_limit_mw=690_000), id="a rounded limit"),
        pytest.param(Facts("laptop", "0000:01:00.0", Speed(slowdowns=())), id="tells nothing"),
    ],
)
@pytest.mark.parametrize("world", [1, 8])
def test_silent(own: Facts, world: int) -> None:
    assert judge(dict.fromkeys(range(world), own)) == []


@pytest.mark.parametrize(
    ("reasons", "told"),
    [
        (("hardware slowdown",), "hardware slowdown at 91 C, 345 of 1980 MHz"),
        (("hardware slowdown", "hardware thermal slowdown"), ": hardware thermal slowdown at"),
        (("hardware slowdown", "hardware power brake"), ": hardware power brake at"),
        (("software thermal slowdown",), "software thermal slowdown at"),
    ],
)
def test_a_slowed_gpu_is_told_with_its_reason(reasons: tuple[str, ...], told: str) -> None:
    (finding,) = judge({0: gpu(), 1: gpu(slowdowns=reasons, temperature_c=91)})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert told in finding.message
    assert "rank 1 (node0, GPU 0000:17:00.0)" in finding.message
    assert "cooling" in finding.fix


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (gpu(set_clock_mhz=1200), "clock limit 1200 MHz, 1980 by default"),
        (gpu(power_limit_mw=400_000), "power limit 400000 mW, 700000 by default"),
    ],
)
def test_a_lowered_limit_is_worth_knowing(own: Facts, told: str) -> None:
    (finding,) = judge({0: own, 1: gpu()})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0,))
    assert told in finding.message
    assert "--reset-applications-clocks" in finding.fix


def test_unknown_values_are_told_as_such() -> None:
    (finding,) = judge({0: Facts("node0", "x", Speed(slowdowns=("hardware power brake",)))})
    assert "at ? C, ? of ? MHz" in finding.message


def test_many_gpus_are_one_finding() -> None:
    (finding,) = judge(dict.fromkeys(range(1000), gpu(slowdowns=("hardware power brake",))))
    assert len(finding.ranks) == 1000
    assert finding.message.endswith("; and 992 more")


def test_summary() -> None:
    assert summarize({0: gpu(), 1: gpu(temperature_c=70)}) == "at most 70 C"
    assert summarize({0: gpu(temperature_c=None)}) == ""


THERMAL, BRAKE = "hardware thermal slowdown", "hardware power brake"


@pytest.mark.parametrize(
    ("looks", "kept"),
    [
        pytest.param([(), (), ()], (), id="healthy"),
        pytest.param([(THERMAL,), (THERMAL,), (THERMAL,)], (THERMAL,), id="hot throughout"),
        pytest.param([("hardware slowdown",), (), ()], (), id="the clocks were rising"),
        pytest.param([(), (THERMAL,), ()], (), id="for a moment"),
        pytest.param([(BRAKE,), (BRAKE, THERMAL), (THERMAL, BRAKE)], (BRAKE,), id="one of two"),
    ],
)
def test_the_gpu_is_looked_at_while_it_works(
    looks: list[tuple[str, ...]], kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Gpu("GPU-1", pci="0000:17:00.0", speed=IDLE)
    told = iter(msgspec.structs.replace(IDLE, slowdowns=each, clock_mhz=1500) for each in looks)
    monkeypatch.setattr(throttled, "gpu_of", {"cuda:1": own}.get)

    def speed_now(device: str) -> Speed:
        assert device == "cuda:1"
        return next(told)

    monkeypatch.setattr(throttled, "speed_of", speed_now)
    monkeypatch.setattr(device_speed, "seen_at_work", looking(len(looks)))
    assert probe(context_with(device="cuda:1")) == gpu(slowdowns=kept, clock_mhz=1500)


def test_a_slowdown_while_idle_that_work_ends_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    was = msgspec.structs.replace(IDLE, slowdowns=("hardware slowdown",))
    monkeypatch.setattr(throttled, "gpu_of", always(Gpu("GPU-1", speed=was)))
    monkeypatch.setattr(throttled, "speed_of", always(IDLE))
    monkeypatch.setattr(device_speed, "seen_at_work", looking(3))
    assert judge({0: probe(context_with(device="cuda:0"))}) == []


def looking(count: int) -> Callable[[str, int, Callable[[], Speed]], list[Speed]]:
    """Return what looks so often, without any work."""
    return lambda _device, _size, look: [look() for _ in range(count)]


@pytest.mark.parametrize(
    ("device", "gpu_or_reason", "reason"),
    [
        ("cpu", "", "this run uses no GPU"),
        ("cuda:0", "NVML: Driver Not Loaded", "Driver Not Loaded"),
        ("cuda:0", Gpu("GPU-1"), "does not tell"),
    ],
)
def test_what_cannot_be_measured_is_skipped(
    device: str, gpu_or_reason: Gpu | str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttled, "gpu_of", always(gpu_or_reason))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
