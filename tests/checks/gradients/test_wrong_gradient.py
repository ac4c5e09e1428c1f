import math

import pytest
from vector_sketches import sketched

from ddpcheck.checks.gradients.wrong_gradient import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.sketch import Sketch

Ranks = dict[int, Facts]
Gradient = dict[str, tuple[float, ...]]
Reference = dict[str, tuple[float, float]]

FLOAT32, BFLOAT16 = 2.0**-23, 2.0**-7
NAN, INF = float("nan"), float("inf")
NAMES = ("w", "b")
EXACT: Reference = {"w": (1.0, 1e-7), "b": (2.0, 2e-7)}


def own_gradient(rank: int) -> Gradient:
    return {"w": (1.0 + rank, 0.5), "b": (2.0 * rank, -1.0)}


def mean(world: int) -> Gradient:
    return {
        name: tuple(math.fsum(column) / world for column in zip(*rows, strict=True))
        for name, rows in (
            (name, [own_gradient(rank)[name] for rank in range(world)]) for name in NAMES
        )
    }


def sketches(gradient: Gradient) -> dict[str, Sketch]:
    return {name: sketched(*values) for name, values in gradient.items()}


def ranks(
    world: int,
    reference: Reference = EXACT,
    synced: Gradient | None = None,
    unit: float = FLOAT32,
) -> Ranks:
    """Return ranks whose DDP gradient is ``synced``: the mean of theirs, unless told otherwise."""
    given = sketches(mean(world) if synced is None else synced)
    return {
        rank: Facts("0f", unit, sketches(own_gradient(rank)), given, None if rank else reference)
        for rank in range(world)
    }


def off(relative: float) -> Reference:
    return EXACT | {"b": (2.0, 2.0 * relative)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param(ranks(2, off(0.9e-3)), id="just within the limit"),
        pytest.param(ranks(2, off(0.1), unit=BFLOAT16), id="within bfloat16's rounding"),
        pytest.param(ranks(2, EXACT | {"k": (1e-9, 1e-9)}), id="noise beside the whole"),
        pytest.param(ranks(2, {"w": (0.0, 0.0), "b": (0.0, 0.0)}), id="no gradient at all"),
        pytest.param(ranks(2, {}), id="a model without parameters"),
        pytest.param(
            {rank: each for rank, each in ranks(8).items() if rank != 5}, id="a rank told nothing"
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


def test_replicas_that_differ_are_told_elsewhere() -> None:
    facts = ranks(2, off(0.5))
    odd = Facts("ff", FLOAT32, facts[1].own, facts[1].synced)
    assert judge(facts | {1: odd}) == []


@pytest.mark.parametrize("world", [2, 3, 8])
def test_the_right_average_of_the_wrong_losses_is_a_warning(world: int) -> None:
    (finding,) = judge(ranks(world, off(0.4)))
    assert finding.title == "the loss weights ranks, not samples"
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == tuple(range(world))
    assert "global count" in finding.fix


@pytest.mark.parametrize(
    "synced",
    [
        pytest.param({name: tuple(2 * v for v in mean(2)[name]) for name in NAMES}, id="doubled"),
        pytest.param({name: tuple(v / 2 for v in mean(2)[name]) for name in NAMES}, id="halved"),
        pytest.param(own_gradient(0), id="rank 0's alone"),
        pytest.param(mean(2) | {"b": (0.0, 0.0)}, id="zero"),
        pytest.param(mean(2) | {"b": (NAN, 0.0)}, id="not a number"),
        pytest.param(
            mean(2) | {"b": (INF, 0.0)},
            id="infinite",
        ),
    ],
)
def test_what_is_not_the_average_is_an_error(synced: Gradient) -> None:
    (finding,) = judge(ranks(2, off(0.5), synced))
    assert finding.title == "DDP's gradient is not the average of the ranks' gradients"
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (0, 1)
    assert "hooks" in finding.fix


@pytest.mark.parametrize(("world", "odd"), [(2, (1,)), (8, (5,)), (8, (0,)), (8, (2, 6))], ids=str)
def test_ranks_whose_gradient_is_another_than_the_others_are_named(
    world: int, odd: tuple[int, ...]
) -> None:
    facts = ranks(world, off(0.5))
    for rank in odd:
        own = facts[rank]
        wrong = own.synced | {"b": sketched(9.0, 9.0)}
        facts[rank] = Facts("0f", FLOAT32, own.own, wrong, own.reference)
    (finding,) = judge(facts)
    assert finding.ranks == odd


def test_the_message_tells_the_first_parameter_how_far_and_how_many() -> None:
    reference = {"w": (1.0, 0.25), "b": (2.0, 1.0), "k": (1e-9, 0.0)}
    (finding,) = judge(ranks(2, reference))
    assert finding.message == (
        "gradient of w is off by 2.5e-01, limit 1e-03 (2 of 2 parameters are)"
    )
    assert finding.evidence == {"parameter": "w", "relative_error": 0.25}


@pytest.mark.parametrize("distance", [NAN, INF])
def test_a_distance_that_is_no_number_is_no_agreement(distance: float) -> None:
    (finding,) = judge(ranks(2, EXACT | {"b": (2.0, distance)}))
    assert finding.evidence["parameter"] == "b"


def test_the_limit_grows_with_the_coarsest_rank() -> None:
    facts = ranks(2, off(0.1))
    assert judge(facts) != []
    coarse = Facts("0f", BFLOAT16, facts[1].own, facts[1].synced)
    assert judge(facts | {1: coarse}) == []


def test_a_parameter_that_ddp_gives_no_gradient_on_any_rank_is_an_error() -> None:
    facts = ranks(2, EXACT | {"lost": (1.0, 1.0)})
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR
    assert "lost" in finding.message


def test_a_parameter_that_ddp_gives_no_gradient_on_one_rank_is_an_error() -> None:
    facts = ranks(4, off(1.0))
    own = facts[2]
    facts[2] = Facts("0f", FLOAT32, own.own, {"w": own.synced["w"]})
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR


def test_a_loss_that_is_not_a_number_by_itself_is_not_blamed_on_ddp() -> None:
    nothing: Gradient = dict.fromkeys(NAMES, (NAN, NAN))
    facts = {
        rank: Facts(
            "0f",
            FLOAT32,
            sketches(nothing),
            sketches(nothing),
            None if rank else dict.fromkeys(NAMES, (NAN, NAN)),
        )
        for rank in range(2)
    }
    assert [found.title for found in judge(facts) if "DDP" in found.title] == []


def test_without_the_reference_the_check_does_not_pass() -> None:
    facts = {rank: fact for rank, fact in ranks(8, off(0.5)).items() if rank}
    assert judge(facts) != []


def test_a_rank_that_told_nothing_does_not_make_the_average_wrong() -> None:
    facts = {rank: fact for rank, fact in ranks(8, off(0.4)).items() if rank != 5}
    (finding,) = judge(facts)
    assert finding.severity is not Severity.ERROR


def test_summary_tells_how_close_the_gradients_are() -> None:
    assert summarize(ranks(2, {"w": (3.0, 3e-7), "b": (4.0, 4e-7)})) == (
        "DDP's gradient is 1e-07 from one process in float64"
    )
    assert summarize(ranks(2, {"w": (0.0, 0.0)})).startswith("DDP's gradient is 0e+00 from")
    assert summarize({1: ranks(2)[1]}) == ""
