import pytest

from ddpcheck.checks.collectives.leaky_barrier import Facts, judge
from ddpcheck.finding import Severity


@pytest.mark.parametrize("world", [2, 8])
def test_barriers_that_wait_are_silent(world: int) -> None:
    assert judge(dict.fromkeys(range(world), Facts(()))) == []


def test_a_rank_that_came_out_early_is_named_with_whom_it_did_not_await() -> None:
    waited = dict.fromkeys(range(4), Facts(()))
    (finding,) = judge(waited | {1: Facts((0, 3)), 2: Facts((3,))})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1, 2))
    assert finding.message == "rank 1 came out of it before rank 0 had come"
    assert finding.evidence == {"1": [0, 3], "2": [3]}
    assert "torch.distributed.barrier" in finding.fix
