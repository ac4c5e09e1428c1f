import pytest

from ddpcheck.checks.gradients.gathered_without_gradient import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.gathers import Gather

LINE = Location("loss.py", 22, "gather")
OTHER = Location("loss.py", 40, "metric")
CUT = Gather(LINE, 0, 4, 4, (8, 16), "project.weight")
WHOLE = Gather(LINE, 0, 4, 0, (8, 16))


@pytest.mark.parametrize(
    "gathers",
    [
        pytest.param((), id="nothing is gathered"),
        pytest.param((WHOLE,), id="a gradient comes back"),
        pytest.param((Gather(LINE, 0, 4, 1, (8, 16)),), id="only at times not"),
        pytest.param((Gather(LINE, 0, 4, 0, (8, 16), "", 3),), id="as a constant at times"),
    ],
)
def test_silent(gathers: tuple[Gather, ...]) -> None:
    assert judge(dict.fromkeys(range(2), Facts(gathers))) == []


def test_features_that_are_cut_off() -> None:
    (finding,) = judge(dict.fromkeys(range(2), Facts((CUT,))))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert finding.location == LINE
    assert "shape [8, 16], made with project.weight" in finding.message
    assert "4 steps on rank 0-1" in finding.message


def test_a_part_of_the_gradient_is_cut_off() -> None:
    (finding,) = judge({0: Facts((Gather(LINE, 0, 4, 0, (8, 16), "", 4),)), 1: Facts((WHOLE,))})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0,))
    assert finding.title == "a part of a gradient gets lost in an all_gather"
    assert "as a constant, beside the tensor itself" in finding.message


def test_one_of_the_gathers_of_a_line_is_enough() -> None:
    second = Gather(LINE, 1, 4, 4, (8, 32), "text.weight")
    kept = Gather(OTHER, 0, 4, 0, (8, 10))
    (finding,) = judge({0: Facts((WHOLE, second, kept)), 1: Facts((WHOLE, kept))})
    assert (finding.ranks, finding.location) == ((0,), LINE)
    assert finding.evidence == {"parameter": "text.weight", "shape": [8, 32]}


def test_a_parameter_may_be_unknown() -> None:
    (finding,) = judge({0: Facts((Gather(None, 0, 2, 2, (4,)),))})
    assert "of shape [4] was gathered" in finding.message


def test_summary() -> None:
    assert summarize({0: Facts(())}) == "nothing was gathered"
    assert summarize({0: Facts((WHOLE,))}) == "gradients came back to 4 gathered tensors"
