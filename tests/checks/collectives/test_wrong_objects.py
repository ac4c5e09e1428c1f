import pytest

from ddpcheck.checks.collectives.wrong_objects import Facts, judge
from ddpcheck.finding import Severity


@pytest.mark.parametrize("world", [1, 2, 8])
def test_right_objects_are_silent(world: int) -> None:
    assert judge(dict.fromkeys(range(world), Facts({}))) == []


def test_a_wrong_object_is_an_error_on_the_rank_to_which_it_came() -> None:
    right = dict.fromkeys(range(4), Facts({}))
    (finding,) = judge(right | {2: Facts({"all_gather_object": 1})})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert finding.title == "objects arrive as others on 1 of 4 ranks"
    assert finding.message == "rank 2: all_gather_object gave another object than rank 1 sent"
    assert "torch.cuda.set_device" in finding.fix
    assert finding.evidence == {"2": ["all_gather_object"]}
