import pytest
from msgspec import structs

from ddpcheck.checks.sharding.loaded_on_some_ranks import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

PLACE = Location("/train.py", 87, "warm_start")
LOADED = Facts((("aa", True), ("bb", True)), location=PLACE)
MADE = Facts((("cc", False), ("dd", False)))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(LOADED, id="both loaded"),
        pytest.param(Facts((("aa", False), ("bb", False))), id="what was loaded is broadcast"),
        pytest.param(structs.replace(MADE, reloads=True), id="loaded again when it was sharded"),
        pytest.param(Facts((("", False), ("", False))), id="on meta, to be filled later"),
        pytest.param(Facts((("cc", True), ("dd", True))), id="each its own file"),
    ],
)
def test_silent(other: Facts) -> None:
    assert judge({0: LOADED, 1: other}) == []


def test_seeds_of_their_own_are_no_fault() -> None:
    assert judge({0: Facts((("ee", False), ("ff", False))), 1: MADE}) == []


def test_weights_of_one_rank_alone_are_an_error() -> None:
    (finding,) = judge({0: LOADED, 1: MADE})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert finding.location == PLACE
    assert "rank 0 loaded weights before fully_shard, rank 1 did not" in finding.message
    assert "broadcast_from_rank0" in finding.fix


def test_summary() -> None:
    assert summarize({0: LOADED}) == "2 modules looked at as they were sharded"
