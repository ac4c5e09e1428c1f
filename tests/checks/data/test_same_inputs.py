import pytest
from msgspec import structs

from ddpcheck.checks.data.same_inputs import Facts, judge, summarize
from ddpcheck.finding import Location, Severity

CALL = Location("/train.py", 25, "train")
ALL = (0, 1)
ONE = Facts(tuple("abcd"), ALL, (4.0, 3.0, 2.5, 2.2), location=CALL)


def test_equal_inputs_and_losses_are_a_warning_at_the_call() -> None:
    (finding,) = judge({0: ONE, 1: ONE})
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, ALL, CALL)
    assert "seed" in finding.fix
    assert summarize({0: ONE, 1: ONE}) == "the first 4 inputs of the model compared on 2 ranks"


def test_inputs_that_look_drawn_may_be_made_up() -> None:
    drawn = structs.replace(ONE, look_drawn=True)
    (finding,) = judge({0: drawn, 1: drawn})
    assert finding.severity is Severity.INFO
    assert "made up" in finding.message


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"inputs": tuple("efgh")}, id="other inputs"),
        pytest.param({"inputs": tuple("abce")}, id="some in common"),
        pytest.param({"losses": (4.0, 3.0, 2.4, 2.2)}, id="other draws in the model, or targets"),
        pytest.param({"losses": ()}, id="no losses"),
        pytest.param({"work_together": True}, id="ranks with parts of one sequence"),
        pytest.param({"group": (1, 2)}, id="another group"),
    ],
)
def test_what_is_not_all_the_same_is_silent(changes: dict[str, object]) -> None:
    assert judge({0: ONE, 1: structs.replace(ONE, **changes)}) == []


@pytest.mark.parametrize("inputs", ["aaaa", "abab", "", "    "])
def test_one_batch_over_and_over_is_silent(inputs: str) -> None:
    own = structs.replace(ONE, inputs=tuple(each.strip() for each in inputs))
    assert judge({0: own, 1: own}) == []


@pytest.mark.parametrize("ranks", [(0,), (0, 2)])
def test_ranks_of_which_some_told_nothing_are_silent(ranks: tuple[int, ...]) -> None:
    own = structs.replace(ONE, group=(0,) if ranks == (0,) else (0, 1, 2))
    assert judge(dict.fromkeys(ranks, own)) == []
