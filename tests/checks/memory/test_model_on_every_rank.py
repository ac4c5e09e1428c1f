import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.memory.model_on_every_rank import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

GIB = 2**30
LINE = Location("/train.py", 12, "shard")


def ranks(model_gib: float, world: int = 8, hosts: int = 1) -> dict[int, Facts]:
    """Return ranks on hosts of 200 GiB."""
    return {
        rank: Facts(host, host, "the machine", 200 * GIB, int(model_gib * GIB), LINE)
        for rank in range(world)
        for host in [f"node{rank * hosts // world}"]
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(0), id="made on the meta device"),
        pytest.param(ranks(1), id="a small model"),
        pytest.param(ranks(150, world=1), id="one rank"),
        pytest.param(ranks(150, hosts=8), id="one rank on each host"),
        pytest.param(ranks(0) | {0: ranks(150)[0]}, id="on rank 0 alone"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("model_gib", "severity", "part"), [(5, Severity.INFO, "20%"), (14, Severity.WARNING, "56%")]
)
def test_copies_that_take_much_of_the_memory(
    model_gib: float, severity: Severity, part: str
) -> None:
    (finding,) = judge(ranks(model_gib))
    assert (finding.severity, finding.ranks, finding.location) == (severity, tuple(range(8)), LINE)
    assert f"8 copies of {model_gib} GiB on the CPU, {part} of the 200 GiB" in finding.message
    assert "meta" in finding.fix


def test_only_those_that_have_it_are_named() -> None:
    facts = ranks(30)
    facts |= {rank: msgspec.structs.replace(facts[rank], model_bytes=0) for rank in (0, 1)}
    (finding,) = judge(facts)
    assert finding.ranks == (2, 3, 4, 5, 6, 7)


def test_summary_and_skip() -> None:
    assert summarize(ranks(2)) == "2 GiB of a model on a rank's CPU before it was sharded"
    with pytest.raises(Skip, match="only ddpcheck watch"):
        Observer(context_with()).facts()
    with pytest.raises(Skip, match="fully_shard"):
        Observer(context_with(watches=True)).facts()
