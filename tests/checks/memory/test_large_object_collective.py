import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.memory import large_object_collective
from ddpcheck.checks.memory.large_object_collective import (
    Call,
    Facts,
    Observer,
    judge,
    summarize,
)
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.machine.cgroups import Room

MIB = 2**20
LINE = Location("/eval.py", 30, "collect")
TEXTS = Call("all_gather_object", LINE, 50 * MIB, 0, 2)
TENSORS = msgspec.structs.replace(TEXTS, raw_bytes=48 * MIB)


def ranks(*calls: Call, world: int = 2, hosts: int = 1, limit_gib: int = 64) -> dict[int, Facts]:
    return {
        rank: Facts(host, host, limit_gib * 1024 * MIB, calls)
        for rank in range(world)
        for host in [f"node{rank * hosts // world}"]
    }


@pytest.mark.parametrize("operation", ["all_gather_object", "gather_object"])
def test_tensors_that_are_gathered_are_a_warning(operation: str) -> None:
    call = msgspec.structs.replace(TENSORS, operation=operation)
    (finding,) = judge(ranks(call))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert (finding.ranks, finding.location) == ((0, 1), LINE)
    assert finding.title == f"{operation} is given objects of 50 MiB"
    assert "48 MiB of it tensors" in finding.message


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(TEXTS, id="texts, which have no other way"),
        pytest.param(msgspec.structs.replace(TEXTS, raw_bytes=20 * MIB), id="tensors among texts"),
        pytest.param(
            msgspec.structs.replace(TENSORS, operation="broadcast_object_list"), id="a state, once"
        ),
    ],
)
def test_what_may_be_needed_is_told_and_no_more(call: Call) -> None:
    (finding,) = judge(ranks(call))
    assert finding.severity is Severity.INFO


def test_nothing_large_is_silent() -> None:
    assert judge(ranks()) == []


@pytest.mark.parametrize(
    ("operation", "taken"),
    [
        # Each of 8 ranks on a host gets what 64 have, as bytes and as objects.
        ("all_gather_object", "50 GiB"),
        ("gather_object", "6.2 GiB"),
        ("broadcast_object_list", "800 MiB"),
    ],
)
def test_what_takes_a_tenth_of_a_hosts_memory_is_a_warning(operation: str, taken: str) -> None:
    call = msgspec.structs.replace(TEXTS, operation=operation, ranks=64)
    (finding,) = judge(ranks(call, world=64, hosts=8, limit_gib=4))
    assert taken in finding.message
    assert finding.severity is Severity.WARNING
    (finding,) = judge(ranks(call, world=64, hosts=8, limit_gib=2048))
    assert finding.severity is Severity.INFO


def test_the_memory_may_be_unknown() -> None:
    (finding,) = judge(ranks(TEXTS, limit_gib=0))
    assert finding.severity is Severity.INFO


def test_each_line_is_a_finding_of_its_own() -> None:
    other = msgspec.structs.replace(TENSORS, location=Location("/eval.py", 50))
    findings = judge(ranks(TENSORS) | {1: Facts("node0", "node0", 1024 * MIB, (TENSORS, other))})
    assert [each.ranks for each in findings] == [(0, 1), (1,)]


def test_summary_and_skip() -> None:
    assert summarize(ranks(TEXTS)) == "1 lines with collectives of objects of 32 MiB or more"
    with pytest.raises(Skip):
        Observer(context_with()).facts()


def test_small_ones_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_object_collective, "tightest_memory", lambda: None)
    observer = Observer(context_with(watches=True))
    observer.on_pickled("all_gather_object", {"x": 1}, 32 * MIB - 1, 2, LINE)
    assert observer.facts().calls == ()
    room = Room(8 * MIB, MIB)
    monkeypatch.setattr(large_object_collective, "tightest_memory", lambda: ("the machine", room))
    assert observer.facts().limit_bytes == 8 * MIB
