import pytest

from ddpcheck.checks.sharding.batch_sizes_disagree import Facts, Sizes, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 40, "main")


def ranks(sizes: Sizes | None, world_size: int) -> dict[int, Facts]:
    return dict.fromkeys(range(world_size), Facts(world_size, sizes, LINE))


def test_silent() -> None:
    assert judge(ranks(None, 2)) == []
    assert summarize(ranks(None, 2)) == "DeepSpeed refused no configuration"


@pytest.mark.parametrize(
    ("seen", "fix"), [(1, "call deepspeed.init_distributed()"), (2, "set train_batch_size to 64")]
)
def test_what_deepspeed_refuses_is_an_error(seen: int, fix: str) -> None:
    (finding,) = judge(ranks(Sizes(256, 4, 8, seen), 2))
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert f"256, and not 4 a GPU x 8 accumulated x {seen} ranks" in finding.message
    assert finding.fix.startswith(fix)
