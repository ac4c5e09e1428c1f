import pytest
from msgspec.structs import replace
from vector_sketches import sketched

from ddpcheck.checks.gradients.replicas_differ import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.sketch import Sketch
from ddpcheck.measures.unwrapped import Summed, Unwrapped

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
            (0, 1),
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
            (0, 1),
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
            (0, 1),
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
            (0, 1),
            "parameters differ from step 2 on, though gradients were equal in the first 2",
            id="from a later step on",
        ),
        pytest.param(
            {0: rank(norms="abcde"), 1: rank(norms="vwxyz", after=OTHER_END)},
            (0, 1),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="GPUs of two models add up differently",
        ),
        pytest.param(
            ranks(4, 2, 3, fact=DRIFTED),
            (0, 1, 2, 3),
            "parameters differ after 4 steps, though gradients were equal in the first 2",
            id="of two halves, neither is the odd one",
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
    undecided = finding.ranks == tuple(facts)
    assert undecided == ("nobody can say which rank is right" in finding.message)
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
    named = (0, 1) if world == 2 else (world - 1,)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, named)


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


@pytest.mark.parametrize("gradients", [(), ({},), ({"another": GRADIENT["a"]},)])
def test_gradients_that_were_not_seen_are_not_said_to_be_equal(
    gradients: tuple[Sketches, ...],
) -> None:
    facts = {0: rank(gradients=gradients), 1: rank(gradients=gradients, after=OTHER_END)}
    (finding,) = judge(facts)
    assert "gradients were equal" not in finding.title


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
    assert "not seen that gradients are averaged" in finding.message
    assert "wrapped model" not in finding.fix


@pytest.mark.parametrize(
    ("parts", "apart_at_first", "count"),
    [
        pytest.param([(0, 1)], True, 0, id="stages of a pipeline, or of a model split by hand"),
        pytest.param([(0, 2)], True, 1, id="the parts are on other ranks"),
        pytest.param([(0, 1)], False, 1, id="alike at first: no parts of one model"),
    ],
)
def test_parts_of_one_model_are_no_replicas(
    parts: list[tuple[int, ...]], apart_at_first: bool, count: int
) -> None:
    before = OTHER_END if apart_at_first else START
    facts = {0: rank(group=()), 1: rank(before=before, after=OTHER_END, group=())}
    facts = {each: replace(own, unwrapped=Unwrapped(parts=parts)) for each, own in facts.items()}
    assert len(judge(facts)) == count


LINE = Location("/train.py", 30, "average")
TABLE: Sketches = {"table": sketched(7.0, 7.0)}
OTHER_TABLE: Sketches = {"table": sketched(5.0, 9.0)}


def averaging(
    *own: Facts, is_whole: bool = True, constants: list[str] | None = None, parts: bool = False
) -> Ranks:
    """Return facts of ranks that average their gradients by themselves."""
    group = tuple(range(len(own)))
    names = {"b": "head.bias"}
    summed = Summed(group, is_whole, LINE)
    unwrapped = Unwrapped(summed, names, constants or [], [group] if parts else [])
    return {each: replace(fact, group=(), unwrapped=unwrapped) for each, fact in enumerate(own)}


def with_table(fact: Facts, table: Sketches) -> Facts:
    gradients = [each | table for each in fact.gradients]
    return replace(fact, before=fact.before | table, gradients=gradients, after=fact.after | table)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(averaging(rank(), rank()), id="replicas"),
        pytest.param(
            averaging(with_table(rank(), TABLE), with_table(rank(), OTHER_TABLE), is_whole=False),
            id="a table of each rank's own beside what is averaged",
        ),
        pytest.param(averaging(rank(), UNSYNCED, parts=True), id="ranks that split one model"),
        pytest.param(
            averaging(
                rank(),
                rank(gradients=({"a": sketched(9.0), "b": sketched(8.0)},) * 2, after=OTHER_END),
                is_whole=False,
            ),
            id="nothing is the same: what was summed was no gradient",
        ),
    ],
)
def test_what_is_averaged_by_hand_may_be_right(facts: Ranks) -> None:
    assert judge(facts) == []


def test_a_gradient_that_is_left_out_of_averaging_by_hand_is_a_warning_at_its_line() -> None:
    (finding,) = judge(averaging(rank(), UNSYNCED, is_whole=False))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert (finding.location, finding.ranks) == (LINE, (0, 1))
    assert finding.title == "the gradient of head.bias is not averaged with the others"
    assert "average the gradient of head.bias, too" in finding.fix


@pytest.mark.parametrize(("is_whole", "table"), [(True, True), (True, False), (False, False)])
def test_replicas_averaged_by_hand_that_start_apart(is_whole: bool, table: bool) -> None:
    # Where all gradients are averaged, or nothing random is alike, no parameter is a rank's own.
    apart = rank(before={"a": START["a"], "b": sketched(9.0)}, after=OTHER_END)
    facts = averaging(rank(), apart, is_whole=is_whole, constants=[] if table else ["a"])
    (finding,) = judge(facts)
    assert finding.title == "parameters differ before the first step"
    assert "seed all ranks alike" in finding.fix


def test_replicas_averaged_by_hand_that_step_apart() -> None:
    (finding,) = judge(averaging(rank(), rank(), DRIFTED))
    assert finding.ranks == (2,)
    assert "same learning rate" in finding.fix


def test_rounding_of_what_is_averaged_by_hand_is_only_told() -> None:
    near = rank(after=END | {"b": sketched(2.99 * (1 + FLOAT32 / 2))})
    (finding,) = judge(averaging(rank(), near))
    assert finding.severity is Severity.INFO


APART = rank(
    gradients=({"a": sketched(9.0), "b": sketched(8.0)},) * 2,
    after={"a": sketched(0.1, 0.2), "b": sketched(2.9)},
)


def too_soon(*own: list[str], parts: bool = False, apart: Facts = APART) -> Ranks:
    """Return facts of ranks of whose gradients these were summed too soon."""
    facts = averaging(rank(), *[apart] * (len(own) - 1), parts=parts)
    each = zip(facts.items(), own, strict=True)
    return {
        rank: replace(fact, unwrapped=replace(fact.unwrapped, too_soon=names))
        for (rank, fact), names in each
    }


def in_part(facts: Ranks) -> Ranks:
    """Return these facts, but for that only a part of the gradients is summed: for a measure, say."""
    told: Ranks = {}
    for rank, own in facts.items():
        assert own.unwrapped.summed is not None
        summed = replace(own.unwrapped.summed, is_whole=False)
        told[rank] = replace(own, unwrapped=replace(own.unwrapped, summed=summed))
    return told


def test_gradients_that_are_all_summed_and_used_by_nobody() -> None:
    (finding,) = judge(too_soon([], []))
    assert finding.title.endswith("and the optimizer gets each rank's own")
    assert (finding.severity, finding.location) == (Severity.WARNING, LINE)
    assert "copy what was summed into .grad" in finding.fix


def test_gradients_that_a_backward_pass_changed_after_they_were_summed() -> None:
    (finding,) = judge(too_soon(["a", "b"], ["a", "b"]))
    assert finding.title == "gradients were changed by a backward pass after they were summed"
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert (finding.location, finding.ranks) == (LINE, (0, 1))
    assert "after the last backward pass" in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(in_part(too_soon([], [])), id="not seen"),
        pytest.param(in_part(too_soon(["a"], [])), id="seen on one rank"),
        pytest.param(in_part(too_soon(["b"], ["b"])), id="of another than differs first"),
        pytest.param(too_soon(["a"], ["a"], parts=True), id="ranks that split one model"),
        pytest.param(too_soon(["a"], ["a"], apart=rank()), id="what came later was alike"),
        pytest.param(
            too_soon(["a"], ["a"], apart=rank(gradients=tuple(APART.gradients))),
            id="parameters are alike all the same",
        ),
    ],
)
def test_what_is_summed_before_a_backward_pass_may_be_right(facts: Ranks) -> None:
    assert judge(facts) == []


def test_one_dataset_that_is_dealt_out_to_ranks_that_began_alike_is_for_one_model() -> None:
    dealt = Unwrapped(made=LINE, shares=True)
    facts = {
        each: replace(own, group=(), unwrapped=dealt) for each, own in enumerate((rank(), UNSYNCED))
    }
    (finding,) = judge(facts)
    assert (finding.severity, finding.location) == (Severity.WARNING, LINE)
    assert "--steps" in finding.message
    ended = replace(dealt, ended=True)
    (finding,) = judge({each: replace(own, unwrapped=ended) for each, own in facts.items()})
    assert "--steps" not in finding.message
    apart = replace(facts[1], before=OTHER_END)
    (finding,) = judge({0: facts[0], 1: apart})
    assert finding.severity is Severity.INFO
    split = replace(dealt, spread=[(0, 1)])
    (finding,) = judge({each: replace(own, unwrapped=split) for each, own in facts.items()})
    assert finding.severity is Severity.INFO
