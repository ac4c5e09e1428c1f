from collections.abc import Callable

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import throttled
from ddpcheck.checks.devices.throttled import Facts, judge, probe
from ddpcheck.machine.gpu import Gpu, Speed
from ddpcheck.target import device_speed

# An idle H200: low clocks, which are normal.
IDLE = Speed((), 31, 345, 1980, 1980, 1980, 700_000, 700_000)


def gpu(**changed: object) -> Facts:
    return Facts("node0", "0000:17:00.0", msgspec.structs.replace(IDLE, **changed))


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
