import pytest

from ddpcheck.checks.gradients.unused_parameters import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Recommendation, Severity

Ranks = dict[int, Facts]

HEAD = ("head.weight", "head.bias")


def rank(*unused: str, copes: bool = False, steps: int = 4) -> Facts:
    return Facts(unused, 12, copes, steps)


def ranks(world: int, *odd: int, fact: Facts | None = None) -> Ranks:
    return {each: fact if fact and each in odd else rank() for each in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({3: rank(), 4: rank()}, id="ranks that told nothing"),
        pytest.param(ranks(2, 0, 1, fact=rank(*HEAD, copes=True)), id="DDP was told to look"),
        pytest.param(ranks(8, 5, fact=rank(*HEAD, copes=True)), id="on one rank, DDP looks"),
        pytest.param({0: Facts((), 0, False, 1)}, id="nothing to train"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad", "title"),
    [
        pytest.param(ranks(1, 0, fact=rank(*HEAD)), (0,), "", id="the only rank"),
        pytest.param(ranks(2, 0, 1, fact=rank(*HEAD)), (0, 1), "", id="both ranks"),
        pytest.param(ranks(8, *range(8), fact=rank(*HEAD)), tuple(range(8)), "", id="all of 8"),
        pytest.param(ranks(2, 0, fact=rank(*HEAD)), (0,), " on some ranks", id="rank 0 of two"),
        pytest.param(ranks(8, 5, fact=rank(*HEAD)), (5,), " on some ranks", id="one of eight"),
        pytest.param(
            {0: rank("a.weight"), 1: rank("b.weight")},
            (0, 1),
            " on some ranks",
            id="another branch on each rank",
        ),
        pytest.param(
            {6: rank(*HEAD), 2: rank(*HEAD)}, (2, 6), "", id="ranks that told nothing, any order"
        ),
        pytest.param(
            {0: rank(*HEAD), 1: rank(*HEAD, copes=True)}, (0,), " on some ranks", id="one copes"
        ),
    ],
)
def test_parameters_that_ddp_does_not_expect_to_be_unused_are_an_error(
    facts: Ranks, bad: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.title) == (bad, f"parameters get no gradient{title}")
    assert "find_unused_parameters=True" in finding.fix


def test_the_message_and_the_evidence_name_them() -> None:
    (finding,) = judge({0: rank("a", "b"), 1: rank("b", "c")})
    assert finding.message.startswith("a, b, c of 12 trainable parameters got no gradient")
    assert finding.evidence == {"parameters": ["a", "b", "c"]}


def test_many_names_are_counted() -> None:
    names = tuple(f"experts.{number}.weight" for number in range(9))
    (finding,) = judge(ranks(2, 1, fact=rank(*names)))
    assert "experts.3.weight and 5 more of 12" in finding.message
    assert "experts.4" not in finding.message
    assert finding.evidence == {"parameters": list(names)}


def test_the_same_names_in_another_order_are_the_same_on_all_ranks() -> None:
    (finding,) = judge({0: rank("a", "b"), 1: rank("b", "a")})
    assert finding.title == "parameters get no gradient"


def test_summary() -> None:
    assert summarize(ranks(8)) == "all 12 parameters get a gradient"
    assert summarize(ranks(2, 0, 1, fact=rank(*HEAD))) == ""


def test_summary_does_not_contradict_the_finding() -> None:
    assert summarize(ranks(8, 5, fact=rank(*HEAD))) != "all 12 parameters get a gradient"


@pytest.mark.parametrize(
    ("facts", "value", "reason"),
    [
        pytest.param(
            ranks(2) | {1: rank(steps=2)},
            False,
            "every parameter got a gradient in 2 steps on every rank",
            id="none is unused",
        ),
        pytest.param(
            ranks(8, 5, fact=rank(*HEAD)),
            True,
            "head.bias, head.weight got no gradient in this run",
            id="on one rank",
        ),
        pytest.param(
            ranks(2, 0, 1, fact=rank(*HEAD, copes=True)),
            True,
            "head.bias, head.weight got no gradient in this run",
            id="it is in use already",
        ),
        pytest.param(
            ranks(2, fact=rank(copes=True)),
            False,
            "every parameter got a gradient in 4 steps on every rank",
            id="it is in use for nothing",
        ),
    ],
)
def test_looking_for_unused_parameters_is_recommended_where_there_are_any(
    facts: Ranks, value: bool, reason: str
) -> None:
    assert recommend(facts) == {"find_unused_parameters": Recommendation(value, reason)}


def test_halves_that_take_turns_need_ddp_to_look() -> None:
    turns = Facts((), 12, copes=True, steps=4, by_parts=True)
    told = recommend({0: turns, 1: turns})["find_unused_parameters"]
    assert told.value is True
    assert "some backward passes" in told.reason


def test_without_ddp_nothing_is_recommended_for_it() -> None:
    assert recommend({0: Facts((), 12, copes=True, steps=4, in_ddp=False)}) == {}
