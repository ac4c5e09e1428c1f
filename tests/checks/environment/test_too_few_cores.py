from typing import Any

import msgspec
import pytest

from ddpcheck.checks.environment.too_few_cores import Facts, judge, summarize
from ddpcheck.finding import Severity


def ranks(world: int, hosts: int = 1, **changed: Any) -> dict[int, Facts]:
    base = Facts("", "", False, "0-63", 64, None, "", 1, "")
    names = {r: f"node{r * hosts // world}" for r in range(world)}
    return {
        r: msgspec.structs.replace(base, host=name, machine=name, quota_place=name, **changed)
        for r, name in names.items()
    }


def bound(world: int, each: int, **changed: Any) -> dict[int, Facts]:
    """Return ranks that are bound to cores of their own."""
    return {
        r: msgspec.structs.replace(own, cores=f"{r * each}-{(r + 1) * each - 1}")
        for r, own in ranks(world, **changed).items()
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1, cores="0-7", core_count=8, threads=8), id="a laptop"),
        pytest.param(ranks(8, cores="0-1", core_count=2), id="8 ranks on 2 cores"),
        pytest.param(ranks(8, cores="0-1", core_count=2, asked="1"), id="8 ranks, OMP says 1"),
        pytest.param(ranks(8, cores="0", core_count=1), id="a machine of one core"),
        pytest.param(ranks(2, cores="0-1", core_count=64), id="a container with 2 of 64 cores"),
        pytest.param(ranks(2, quota=1.0), id="a container with time for one core"),
        pytest.param(ranks(8, threads=8, asked="8"), id="8 x 8 threads on 64 cores"),
        pytest.param(ranks(8, threads=16), id="8 x 16 threads on 64 cores"),
        pytest.param(bound(8, 8, threads=8, on_gpu=True), id="8 GPUs, bound"),
        pytest.param(ranks(8, on_gpu=True, quota=32.0), id="8 GPUs with a quota"),
        pytest.param(ranks(1000, 125, threads=8, asked="8"), id="1000 ranks"),
        pytest.param(ranks(1, cores="3"), id="one rank on one core"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "title", "fix"),
    [
        pytest.param(
            ranks(8, threads=64, asked="64"), "OMP", "OMP_NUM_THREADS=8", id="OMP is too high"
        ),
        pytest.param(
            ranks(4, threads=16, asked="16", quota=4.0), "OMP", "OMP_NUM_THREADS=1", id="a quota"
        ),
        pytest.param(
            ranks(1, threads=64, asked="64", quota=2.0), "OMP", "OMP_NUM_THREADS=2", id="one rank"
        ),
        pytest.param(ranks(8, cores="5"), "one core", "--cpu-bind=cores", id="all on core 5"),
        pytest.param(ranks(8, on_gpu=True, quota=2.0), "GPUs", "--cpus", id="8 GPUs, 2 cores"),
    ],
)
def test_what_someone_chose_is_a_warning(facts: dict[int, Facts], title: str, fix: str) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING
    assert title in finding.title
    assert finding.ranks == tuple(facts)
    assert fix in finding.fix
    assert "node0" in finding.message


def test_threads_that_nobody_asked_for_are_told() -> None:
    (finding,) = judge(ranks(8, threads=64))
    assert finding.severity is Severity.INFO


def test_only_the_host_that_is_short_is_named() -> None:
    facts = ranks(16, 2)
    facts |= {r: msgspec.structs.replace(facts[r], cores="0") for r in range(8, 16)}
    (finding,) = judge(facts)
    assert finding.ranks == tuple(range(8, 16))


def twins(count: int, **changed: Any) -> dict[int, Facts]:
    """Return the ranks of two hosts of one name."""
    told = ranks(2 * count, hosts=2, threads=16, asked="16", **changed)
    return {r: msgspec.structs.replace(own, host="node") for r, own in told.items()}


def test_hosts_of_one_name_have_each_their_cores() -> None:
    assert judge(twins(8)) == []
    (finding,) = judge(twins(16))
    assert finding.ranks == tuple(range(32))
    assert "16 rank(s) of node (rank 0-15)" in finding.message


def test_containers_of_one_machine_share_its_cores() -> None:
    pods = {
        r: msgspec.structs.replace(own, machine="one", host=f"pod{r}")
        for r, own in twins(8).items()
    }
    (finding,) = judge(pods)
    assert finding.ranks == tuple(range(16))
    assert "OMP_NUM_THREADS=4" in finding.fix


def test_a_quota_is_that_of_its_own_container() -> None:
    # Together the ranks of both have 128 threads, and each container the time of 32 cores.
    told = twins(4, quota=32.0, core_count=128, cores="0-127")
    same = {r: msgspec.structs.replace(own, machine="one") for r, own in told.items()}
    assert judge(same) == []
    short = {r: msgspec.structs.replace(same[r], quota=8.0) for r in range(4, 8)}
    (finding,) = judge(same | short)
    assert finding.ranks == (4, 5, 6, 7)
    assert "time for 8 of them" in finding.message


def test_many_hosts_are_one_finding() -> None:
    (finding,) = judge(ranks(1000, 125, threads=64, asked="64"))
    assert "and 117 more" in finding.message


def test_summary() -> None:
    assert summarize(ranks(8)) == "8 cores a rank at least"
    assert summarize(ranks(8, quota=2.0)) == "0.25 cores a rank at least"
