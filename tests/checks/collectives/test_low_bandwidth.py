from typing import Any

import msgspec
import pytest
from contexts import context_with

from ddpcheck.checks.collectives.low_bandwidth import (
    ID,
    Facts,
    _before,
    judge,
    representatives,
    summarize,
)
from ddpcheck.finding import Severity
from ddpcheck.measures.collective_speed import Speed

MIB = 2**20


def speed(median_s: float, size_bytes: int = 4 * MIB, spread: float = 0.02, **other: Any) -> Speed:
    return Speed(
        kind=other.get("kind", "all_reduce"),
        memory="contiguous",
        size_bytes=size_bytes,
        goes=20,
        least_s=median_s * (1 - 2 * spread),
        quarter_s=median_s * (1 - spread),
        median_s=median_s,
        three_quarters_s=median_s * (1 + spread),
        p99_s=median_s * (1 + 4 * spread),
        wire_s=other.get("wire_s"),
    )


def ranks(now: Speed, before: tuple[Speed, ...] = (), **other: Any) -> dict[int, Facts]:
    first = Facts("node0", "gloo", 2, (now,), before, other.get("loopback_gbps"))
    return {0: first, 1: Facts(other.get("host", "node0"), "gloo", 2, (now,))}


@pytest.mark.parametrize(
    ("now_s", "spread"),
    [
        pytest.param(0.010, 0.02, id="the same"),
        pytest.param(0.005, 0.02, id="faster"),
        pytest.param(0.0103, 0.001, id="a little slower"),
        pytest.param(0.012, 0.2, id="slower, but it varies as much"),
    ],
)
def test_as_fast_as_before_is_silent(now_s: float, spread: float) -> None:
    before = (speed(0.010, spread=spread),)
    assert judge(ranks(speed(now_s, spread=spread), before)) == []


def test_slower_than_before_is_a_warning() -> None:
    (finding,) = judge(ranks(speed(0.012), (speed(0.010),)))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "all_reduce of 4 MiB (contiguous) 12 ms, before 10 ms" in finding.message
    assert "limit 5%" in finding.message


def test_the_bound_is_the_users() -> None:
    (own, other) = ranks(speed(0.012), (speed(0.010),)).values()
    wide = msgspec.structs.replace(own, bound_ratio=0.2)
    assert judge({0: wide, 1: other}) == []


@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="no baseline"),
        pytest.param((speed(0.001, kind="broadcast"),), id="another collective"),
        pytest.param((speed(0.001, 2 * MIB),), id="another size"),
    ],
)
def test_what_was_not_measured_before_is_silent(before: tuple[Speed, ...]) -> None:
    assert judge(ranks(speed(0.012), before)) == []


def test_a_tiny_message_has_no_bandwidth() -> None:
    assert judge(ranks(speed(0.012, 1024), (speed(0.0001, 1024),))) == []


def test_gloo_far_below_loopback_is_told() -> None:
    (finding,) = judge(ranks(speed(1.0), loopback_gbps=3.0))
    assert finding.severity is Severity.INFO
    assert "all_reduce reaches 0.00419 GB/s, one TCP connection 3" in finding.message


@pytest.mark.parametrize("other", [{"loopback_gbps": 3.0}, {"loopback_gbps": None}])
def test_gloo_near_loopback_is_silent(other: dict[str, Any]) -> None:
    assert judge(ranks(speed(0.005), **other)) == []


def test_several_hosts_have_no_loopback_between_them() -> None:
    assert judge(ranks(speed(1.0), loopback_gbps=3.0, host="node1")) == []


def test_the_baseline_is_that_of_the_slowest_rank_of_as_many_ranks() -> None:
    old = {0: Facts("a", "gloo", 2, (speed(0.010),)), 1: Facts("a", "gloo", 2, (speed(0.011),))}
    plain = {rank: msgspec.to_builtins(own) for rank, own in old.items()}
    assert _before(context_with(world_size=2, baseline={ID: plain})) == (speed(0.011),)
    assert _before(context_with(world_size=4, baseline={ID: plain})) == ()
    assert _before(context_with(world_size=2)) == ()


def test_summary_has_latency_and_bandwidth() -> None:
    small, large = speed(40e-6, 1024, wire_s=10e-6), speed(0.005)
    facts = {r: Facts("node0", "nccl", 2, (small, large)) for r in range(2)}
    assert summarize(facts) == (
        "all_reduce of 1 KiB 40 us (10 us of it not for starting it), "
        "of 4 MiB 0.839 GB/s bus bandwidth"
    )


def test_a_report_of_thousands_keeps_the_slowest_ranks() -> None:
    slow, fast = speed(0.012), speed(0.010)
    tiny = speed(0.002, kind="broadcast")
    told = {
        0: Facts("node0", "gloo", 3, (fast, speed(0.003, kind="broadcast"))),
        1: Facts("node0", "gloo", 3, (slow, tiny)),
        2: Facts("node0", "gloo", 3, (fast, tiny)),
    }
    assert representatives(told) == {0, 1}
