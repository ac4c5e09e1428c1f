import pytest

from ddpcheck.checks.gradients.step_skipped import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.passes import Passes

ONE = Passes(1, 1, 1, 1)
TWO = Passes(2, 2, 2, 2)
ACCUMULATED = Passes(3, 3, 3, 1)
OTHERS = Passes(1, 1, 2, 2)
ALL = (0, 1, 2, 3)


def ranks(*steps: Passes, group: tuple[int, ...] = ALL) -> dict[int, Facts]:
    """Return four ranks, of which rank 2 takes these steps and the others plain ones."""
    plain = Facts((ONE,) * len(steps), group)
    return dict.fromkeys(range(4), plain) | {2: Facts(steps, group)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(ONE, ONE), id="one pass a step"),
        pytest.param(ranks(ONE, ACCUMULATED), id="more passes without averaging"),
        pytest.param(dict.fromkeys(range(4), Facts((TWO, ONE), ALL)), id="all leave it out"),
        pytest.param(ranks(ONE, Passes(1, 1, 2, 2)), id="another model's backward pass"),
        pytest.param(ranks(OTHERS, TWO), id="after a step of another model"),
        pytest.param({0: Facts((ONE, TWO), ALL), 1: Facts((ONE,), ALL)}, id="not there yet"),
        pytest.param({0: Facts((ONE,), (0, 2)), 1: Facts((TWO,), (1, 3))}, id="other groups"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("odd", "words"), [(TWO, "it left a step out"), (Passes(), "it left a backward pass out")]
)
def test_a_rank_that_leaves_one_out_is_named_with_the_step(odd: Passes, words: str) -> None:
    (finding,) = judge(ranks(ONE, odd, ONE))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert "step 1 of the optimizer" in finding.title
    assert words in finding.message


@pytest.mark.parametrize(
    "before", [Passes(2, 2, 1, 1), Passes(1, 2, 1, 1)], ids=["a pass left out", "a look"]
)
def test_what_is_not_paired_off_hides_nothing_later(before: Passes) -> None:
    (finding,) = judge(ranks(ONE, before, ONE, TWO))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert "step 3 of the optimizer" in finding.title


@pytest.mark.parametrize("skipper", [0, 1])
@pytest.mark.parametrize("odd", [TWO, Passes()])
def test_of_two_ranks_it_is_the_one_that_does_not_make_one_for_each(
    skipper: int, odd: Passes
) -> None:
    plain, other = Facts((ONE, ONE, ONE), (0, 1)), Facts((ONE, odd, ONE), (0, 1))
    (finding,) = judge({skipper: other, 1 - skipper: plain})
    assert finding.ranks == (skipper,)


def test_summary() -> None:
    assert summarize({0: Facts((ONE,), ALL)}) == "1 steps compared"
