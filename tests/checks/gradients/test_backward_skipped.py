import pytest

from ddpcheck.checks.gradients.backward_skipped import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.passes import Passes

ONE = Passes(1, 1, 1)
SKIPPED = Passes(2, 2, 1)
LOOKED = Passes(1, 2, 1)
FORWARD = Location("/train.py", 9, "train")
ALL = (0, 1, 2, 3)


def ranks(*steps: Passes, group: tuple[int, ...] = ALL, buffers: bool = False) -> dict[int, Facts]:
    """Return four ranks, of which rank 2 takes these steps and the others plain ones."""
    plain = Facts((ONE,) * len(steps), group, buffers)
    return dict.fromkeys(range(4), plain) | {2: Facts(steps, group, buffers)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(ONE, ONE), id="one batch a step"),
        pytest.param(ranks(ONE, Passes(3, 3, 3)), id="more backward passes accumulated"),
        pytest.param(ranks(ONE, Passes(2, 1, 1)), id="a batch that was thrown away"),
        pytest.param(ranks(Passes(2, 0, 1), SKIPPED), id="a teacher's step"),
        pytest.param(dict.fromkeys(range(4), Facts((SKIPPED,) * 3, ALL)), id="all skip it"),
        pytest.param(dict.fromkeys(range(4), Facts((LOOKED,), ALL, True)), id="two forward each"),
        pytest.param({0: Facts((ONE, SKIPPED), ALL), 1: Facts((ONE,), ALL)}, id="not there yet"),
        pytest.param(
            {0: Facts((ONE,), (0, 2)), 1: Facts((SKIPPED,), (1, 3))}, id="groups of their own"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_a_rank_that_skips_is_named_with_its_step() -> None:
    (finding,) = judge(ranks(ONE, SKIPPED, ONE))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert "took 2 batches, 2 forward and 1 backward passes in step 1" in finding.message
    assert "the others took 1 batches, 1 forward and 1 backward passes" in finding.message
    assert "pair off wrongly" in finding.message


def test_without_a_loader_it_is_the_forward_pass_that_was_left_out() -> None:
    plain, skips = Passes(0, 1, 1, 1), Passes(0, 2, 1, 1, 1)
    facts = {0: Facts((plain, plain), (0, 1)), 1: Facts((plain, skips), (0, 1), left_out=FORWARD)}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (1,), FORWARD)
    assert "rank 1 made 2 forward and 1 backward passes in step 1" in finding.message
    assert judge(dict.fromkeys(range(2), facts[1])) == []


def test_a_harmless_look_does_not_hide_a_skip() -> None:
    (finding,) = judge(ranks(LOOKED, ONE, SKIPPED))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2,))
    assert "in step 2" in finding.message


@pytest.mark.parametrize("skipper", [0, 1])
def test_of_two_ranks_it_is_the_one_with_a_pass_left_over(skipper: int) -> None:
    plain, skips = Facts((ONE, ONE), (0, 1)), Facts((ONE, SKIPPED), (0, 1))
    (finding,) = judge({skipper: skips, 1 - skipper: plain})
    assert finding.ranks == (skipper,)


@pytest.mark.parametrize(("buffers", "severity"), [(True, "error"), (False, "info")])
def test_a_look_on_one_rank_matters_where_buffers_are_broadcast(
    buffers: bool, severity: str
) -> None:
    (finding,) = judge(ranks(ONE, LOOKED, buffers=buffers))
    assert (finding.severity, finding.ranks) == (severity, (2,))
    assert ("broadcasts buffers" in finding.message) is buffers


def test_summary() -> None:
    assert summarize(ranks(ONE, ONE)) == "2 steps compared"
