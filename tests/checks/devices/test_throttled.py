import msgspec
import pytest

from ddpcheck.checks.devices.throttled import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Speed

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
