import pytest
from vector_sketches import sketched

from ddpcheck.checks.gradients.no_sync_broken import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.sketch import Sketch

Ranks = dict[int, Facts]
Sketches = dict[str, Sketch]

NAN, INF = float("nan"), float("inf")
MEAN: Sketches = {"a": sketched(0.5, 0.5), "b": sketched(2.0)}


def own(rank: int) -> Sketches:
    """Return the gradient on this rank's own data."""
    return {"a": sketched(0.5 + rank, 0.5 - rank), "b": sketched(2.0 + rank)}


def told(rank: int, inside: Sketches | None = None, after: Sketches = MEAN) -> Facts:
    return Facts(local=own(rank), inside=own(rank) if inside is None else inside, after=after)


def ranks(world: int) -> Ranks:
    return {each: told(each) for each in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param({2: told(2), 5: told(5)}, id="ranks that told nothing"),
        pytest.param(
            ranks(2) | {1: told(1, {"a": sketched(1.5, -0.5), "b": sketched(3.0 * 1.0005)})},
            id="another order of sums",
        ),
        pytest.param(
            ranks(2) | {1: told(1, after=MEAN | {"b": sketched(2.0 * 1.0005)})},
            id="rounding after the synchronization",
        ),
        pytest.param(
            {each: Facts({}, {}, {}) for each in range(2)}, id="a model without gradients"
        ),
        pytest.param(
            {
                each: Facts({"a": sketched(NAN)}, {"a": sketched(NAN)}, {"a": sketched(NAN)})
                for each in range(2)
            },
            id="a loss that is not a number everywhere",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad"),
    [
        pytest.param({each: told(each, MEAN) for each in (1, 2)}, (1, 2), id="on both ranks"),
        pytest.param(ranks(2) | {1: told(1, MEAN)}, (1,), id="on one of two"),
        pytest.param(ranks(8) | {3: told(3, MEAN), 6: told(6, MEAN)}, (3, 6), id="two of eight"),
        pytest.param({7: told(7, MEAN), 4: told(4)}, (7,), id="ranks that told nothing"),
        pytest.param(
            ranks(2) | {1: told(1, own(1) | {"b": sketched(NAN)})}, (1,), id="not a number inside"
        ),
        pytest.param(
            ranks(2) | {1: told(1, own(1) | {"b": sketched(INF)})}, (1,), id="infinite inside"
        ),
    ],
)
def test_gradients_that_others_changed_inside_are_a_warning(
    facts: Ranks, bad: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert finding.title == "no_sync does not skip the synchronization"
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.ranks == bad


def test_the_message_tells_how_far_they_are_off() -> None:
    (finding,) = judge(ranks(2) | {1: told(1, own(1) | {"b": sketched(6.0)})})
    assert finding.message == (
        "gradients inside no_sync are off from the rank's own by 5.0e-01, limit 1e-03"
    )


@pytest.mark.parametrize(
    ("facts", "bad"),
    [
        pytest.param({each: told(each, after=own(each)) for each in range(2)}, (1,), id="two"),
        pytest.param(ranks(8) | {5: told(5, after=own(5))}, (5,), id="one of eight"),
        pytest.param(
            {each: told(each, after=own(each)) for each in range(8)}, tuple(range(8)), id="all"
        ),
        pytest.param(
            {each: told(each, after=own(each // 2)) for each in range(4)}, (2, 3), id="a tie"
        ),
        pytest.param(
            ranks(2) | {1: told(1, after=MEAN | {"b": sketched(NAN)})}, (1,), id="not a number"
        ),
        pytest.param(
            {2: told(2), 4: told(4, after=own(4)), 6: told(6)}, (4,), id="ranks that told nothing"
        ),
    ],
)
def test_a_backward_afterwards_that_does_not_synchronize_is_an_error(
    facts: Ranks, bad: tuple[int, ...]
) -> None:
    (finding,) = judge(facts)
    assert finding.title == "the backward after no_sync does not synchronize"
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == bad


def test_a_parameter_without_gradient_on_one_rank_is_an_error() -> None:
    (finding,) = judge(ranks(2) | {1: told(1, after={"a": MEAN["a"]})})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (1,))
    assert finding.message == (
        "gradient of b is the first of 1 that differ; relative difference 2.0e+00, limit 1e-03"
    )
    assert finding.evidence == {"parameter": "b", "relative_difference": 2.0}


def test_both_faults_are_two_findings() -> None:
    first, second = judge({each: told(each, MEAN, own(each)) for each in (1, 2)})
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.ERROR)
    assert (first.ranks, second.ranks) == ((1, 2), (2,))


def test_a_gradient_that_is_rounding_noise_does_not_count() -> None:
    # The gradient of a key's bias is zero but for rounding, which atomic additions reorder.
    noise = {"key.bias": sketched(3e-9, -2e-9)}
    other = {"key.bias": sketched(-1e-9, 4e-9)}
    facts = {each: Facts(own(each) | noise, own(each) | other, MEAN | noise) for each in range(2)}
    assert judge(facts) == []


def test_a_gradient_of_zeros_that_is_not_a_number_on_one_rank_is_an_error() -> None:
    zeros = MEAN | {"b": sketched(0.0)}
    facts = {0: told(0, after=zeros), 1: told(1, after=MEAN | {"b": sketched(NAN)})}
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR


def test_a_gradient_that_is_lost_inside_is_a_finding() -> None:
    assert judge(ranks(2) | {1: told(1, {})}) != []


def test_summary() -> None:
    assert summarize(ranks(8)) == "no_sync skips and the next backward syncs on 8 ranks"
