import pytest
from msgspec.structs import replace
from vector_sketches import sketched

from ddpcheck.checks.gradients.replicas_differ import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.sketch import Sketch

Ranks = dict[int, Facts]
Sketches = dict[str, Sketch]

FLOAT32, BFLOAT16 = 2.0**-23, 2.0**-7
NAN = float("nan")
START: Sketches = {"a": sketched(1.0, 2.0), "b": sketched(3.0)}
GRADIENT: Sketches = {"a": sketched(0.5, -0.5), "b": sketched(0.1)}
END: Sketches = {"a": sketched(0.95, 2.05), "b": sketched(2.99)}
OTHER_GRADIENT: Sketches = GRADIENT | {"b": sketched(0.3)}
OTHER_END: Sketches = END | {"b": sketched(2.9)}


def rank(
    before: Sketches = START,
    gradients: tuple[Sketches, ...] = (GRADIENT, GRADIENT),
    after: Sketches = END,
    unit: float = FLOAT32,
    steps: int = 4,
    *,
    group: tuple[int, ...] = (0, 1),
    norms: str = "",
) -> Facts:
    return Facts(unit, before, list(gradients), after, steps, group, tuple(norms))


def ranks(world: int, *odd: int, fact: Facts | None = None) -> Ranks:
    return {each: fact if fact and each in odd else rank() for each in range(world)}


DRIFTED = rank(after=OTHER_END)
UNSYNCED = rank(gradients=(OTHER_GRADIENT, OTHER_GRADIENT), after=OTHER_END)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({2: rank(), 5: rank()}, id="ranks that told nothing"),
        pytest.param(
            ranks(2, 1, fact=rank(gradients=(OTHER_GRADIENT, OTHER_GRADIENT))),
            id="an optimizer that averages by itself",
        ),
        pytest.param(
            {each: rank(after={"a": sketched(NAN), "b": sketched(NAN)}) for each in range(2)},
            id="all diverged alike",
        ),
        pytest.param({0: rank(after={}), 1: rank(after={})}, id="a model without parameters"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "odd", "title"),
    [
        pytest.param(
            ranks(2, 1, fact=rank(before=OTHER_END, after=OTHER_END)),
            (1,),
            "parameters differ before the first step",
            id="a checkpoint on one rank of two",
        ),
        pytest.param(
            ranks(8, 0, fact=rank(before=OTHER_END, after=OTHER_END)),
            (0,),
            "parameters differ before the first step",
            id="a checkpoint on rank 0 of eight",
        ),
        pytest.param(
            ranks(2, 1, fact=UNSYNCED),
            (1,),
            "gradients of step 0 are not synchronized",
            id="loss through .module",
        ),
        pytest.param(
            ranks(8, 3, 6, fact=UNSYNCED),
            (3, 6),
            "gradients of step 0 are not synchronized",
            id="two of eight unsynced",
        ),
        pytest.param(
            ranks(2, 1, fact=rank(gradients=(GRADIENT, OTHER_GRADIENT), after=OTHER_END)),
            (1,),
            "gradients of step 1 are not synchronized",
            id="unsynced from step 1 on",
        ),
        pytest.param(
            ranks(4, 2, fact=DRIFTED),
            (2,),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="another learning rate on one rank",
        ),
        pytest.param(
            {0: rank(norms="abcde"), 1: rank(norms="abcxy", after=OTHER_END)},
            (1,),
            "parameters differ from step 2 on, though gradients were equal in the first 2",
            id="from a later step on",
        ),
        pytest.param(
            {0: rank(norms="abcde"), 1: rank(norms="vwxyz", after=OTHER_END)},
            (1,),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="GPUs of two models add up differently",
        ),
        pytest.param(
            ranks(4, 2, 3, fact=DRIFTED),
            (2, 3),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="in a tie, rank 0 is what people compare with",
        ),
        pytest.param(
            {3: rank(), 5: DRIFTED, 7: rank()},
            (5,),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="ranks that told nothing",
        ),
    ],
)
def test_the_earliest_difference_is_one_error_with_the_odd_ranks(
    facts: Ranks, odd: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.title) == (odd, title)
    assert finding.evidence["parameter"] in {"a", "b"}


def test_when_no_two_ranks_agree_all_are_named() -> None:
    gradients = [{"b": sketched(float(each))} for each in range(3)]
    facts = {
        each: rank(gradients=(own, own), after={"b": sketched(10.0 + each)})
        for each, own in enumerate(gradients)
    }
    (finding,) = judge(facts)
    assert finding.ranks == (0, 1, 2)


def test_the_message_tells_the_first_parameter_how_far_and_how_many() -> None:
    odd = rank(after={"a": sketched(0.95, 2.05), "b": sketched(5.98), "c": sketched(1.0)})
    usual = rank(after=END | {"c": sketched(2.0)})
    (finding,) = judge({0: usual, 1: odd, 2: usual})
    assert finding.message == (
        "parameter b is the first of 2 that differ; relative difference 5.0e-01, limit 1e-07"
    )
    assert finding.evidence == {"parameter": "b", "relative_difference": 0.5}


def test_a_gradient_that_a_rank_lacks_is_a_difference() -> None:
    odd = rank(gradients=({"a": GRADIENT["a"]}, GRADIENT), after=OTHER_END)
    (finding,) = judge(ranks(2, 1, fact=odd))
    assert finding.title == "gradients of step 0 are not synchronized"
    assert finding.message.startswith("gradient of b is the first of 1 that differ")


@pytest.mark.parametrize("value", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("world", [2, 8])
def test_a_replica_that_diverged_alone_is_an_error(value: float, world: int) -> None:
    odd = rank(gradients=(GRADIENT | {"b": sketched(value)},) * 2, after={"b": sketched(value)})
    (finding,) = judge(ranks(world, world - 1, fact=odd))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (world - 1,))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(NAN),
        float("inf"),
    ],
)
def test_a_parameter_of_zeros_that_diverged_on_one_rank_is_an_error(value: float) -> None:
    usual = rank(before={"b": sketched(0.0)}, gradients=(), after={"b": sketched(0.0)})
    odd = rank(before={"b": sketched(0.0)}, gradients=(), after={"b": sketched(value)})
    (finding,) = judge({0: usual, 1: odd})
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("unit", [FLOAT32, BFLOAT16])
def test_rounding_is_no_more_than_information(unit: float) -> None:
    near = rank(after=END | {"b": sketched(2.99 * (1 + unit / 2))}, unit=unit)
    (finding,) = judge({0: rank(unit=unit), 1: near})
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)


def test_two_percent_are_no_rounding_even_in_bfloat16() -> None:
    # As after four steps of SGD with a rate of 0.1 on one rank and 0.2 on the other.
    far = rank(after=END | {"b": sketched(2.99 * 1.02)}, unit=BFLOAT16)
    (finding,) = judge({0: rank(unit=BFLOAT16), 1: far})
    assert finding.severity is Severity.ERROR


def test_more_than_rounding_is_an_error() -> None:
    far = rank(after=END | {"b": sketched(2.99 * (1 + 16 * FLOAT32))})
    (finding,) = judge({0: rank(), 1: far})
    assert finding.severity is Severity.ERROR


def test_a_rank_that_stopped_a_step_early_is_not_accused_of_drifting() -> None:
    stopped = rank(gradients=(GRADIENT,), after={"a": sketched(1.0, 2.0)}, steps=1)
    assert judge({0: rank(gradients=(GRADIENT, GRADIENT), steps=2), 1: stopped}) == []


@pytest.mark.parametrize("gradients", [(), ({},)])
def test_gradients_that_were_not_seen_are_not_said_to_be_equal(
    gradients: tuple[Sketches, ...],
) -> None:
    facts = {0: rank(gradients=gradients), 1: rank(gradients=gradients, after=OTHER_END)}
    (finding,) = judge(facts)
    assert "though gradients were equal in the first 2" not in finding.title


def test_summary() -> None:
    assert summarize(ranks(8)) == "2 parameters compared on 8 ranks over 4 steps"


def test_groups_of_replicas_are_judged_by_themselves() -> None:
    other = rank(after=OTHER_END, group=(2, 3))
    assert judge({0: rank(), 1: rank(), 2: other, 3: other}) == []
    (finding,) = judge({0: rank(), 1: rank(), 2: other, 3: rank(group=(2, 3))})
    assert set(finding.ranks) <= {2, 3}


def test_replicas_that_are_averaged_now_and_then_differ_in_between() -> None:
    # "b" and "c" are apart, and alike again after an average.
    own = {0: rank(norms="aabdb"), 1: rank(norms="aacde", after=OTHER_END)}
    assert judge(own) == []
    never = {0: rank(norms="aabdb"), 1: rank(norms="aacfe", after=OTHER_END)}
    assert len(judge(never)) == 1
    once = {0: rank(norms="aabdbbb"), 1: rank(norms="aacdeee", after=OTHER_END)}
    assert len(judge(once)) == 1


def test_what_is_averaged_by_design_is_not_judged_and_says_so() -> None:
    local = replace(DRIFTED, apart_by_design=True)
    facts = {0: replace(rank(), apart_by_design=True), 1: local}
    assert judge(facts) == []
    assert "not judged" in summarize(facts)


def test_without_ddp_a_difference_is_only_told() -> None:
    (finding,) = judge({0: rank(group=()), 1: rank(after=OTHER_END, group=())})
    assert finding.severity is Severity.INFO
