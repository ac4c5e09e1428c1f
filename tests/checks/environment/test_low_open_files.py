import msgspec
import pytest

from ddpcheck.checks.environment.low_open_files import Facts, judge, summarize
from ddpcheck.finding import Severity


def ranks(
    soft: int | None, world: int = 2, opened: int = 40, sharing: str = "file_descriptor"
) -> dict[int, Facts]:
    return {
        r: Facts(f"node{r // 8}", soft, 524288, opened, sharing, loader_is_known=False)
        for r in range(world)
    }


def with_target(facts: dict[int, Facts]) -> dict[int, Facts]:
    """Return the ranks of a run whose target is the user's."""
    known = msgspec.structs.replace
    return {rank: known(own, loader_is_known=True) for rank, own in facts.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1024, 1), id="the default, one rank"),
        pytest.param(ranks(1024, 8), id="the default, one node"),
        pytest.param(ranks(1024, 128), id="the default, 128 ranks"),
        pytest.param(ranks(256, 2, sharing="file_system"), id="a Mac"),
        pytest.param(ranks(65536, 1024), id="1024 ranks"),
        pytest.param(ranks(None, 1024), id="no limit"),
        pytest.param(ranks(1024, 8, opened=700), id="many files open"),
        pytest.param(with_target(ranks(128, 2)), id="a loader that is measured later"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(128, 2), id="ulimit -n 128"),
        pytest.param(ranks(1024, 1024), id="a socket to each of 1023 ranks"),
        pytest.param(ranks(1024, 2, opened=1000), id="all in use"),
        pytest.param(ranks(64, 16, sharing="file_system"), id="sockets alone"),
    ],
)
def test_too_few(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING
    assert finding.ranks == tuple(facts)
    assert "rank 0 on node0" in finding.message
    assert f"{facts[0].open_count} open" in finding.message
    assert "ulimit -n 65536" in finding.fix
    assert ("set_sharing_strategy" in finding.fix) == (facts[0].sharing == "file_descriptor")


def test_only_the_rank_that_is_short_is_named() -> None:
    facts = ranks(1024, 16) | {
        9: Facts("node1", 128, 128, 40, "file_descriptor", loader_is_known=False)
    }
    (finding,) = judge(facts)
    assert finding.ranks == (9,)
    assert "rank 9 on node1" in finding.message
    assert "hard limit is 128" in finding.fix
    assert "--ulimit nofile" in finding.fix


def test_summary() -> None:
    assert summarize(ranks(None)) == "40 files open at most, of any number"
    assert summarize(ranks(1024)) == "40 files open at most, of 1024"
