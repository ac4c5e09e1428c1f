import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.buffers.running_statistics_differ import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.running_statistics import Evaluation, Statistics

LINE = Location("/train.py", 70, "evaluate")


def evaluation(mean: float = 0.0, variance: float = 1.0) -> Evaluation:
    layers = (
        Statistics("stem.bn", (0.0,) * 3, (1.0,) * 3),
        Statistics("head.bn", (mean,) * 3, (variance,) * 3),
    )
    return Evaluation(layers, LINE)


def ranks(*evaluations: tuple[Evaluation, ...]) -> dict[int, Facts]:
    everybody = tuple(range(len(evaluations)))
    return {rank: Facts(everybody, own) for rank, own in enumerate(evaluations)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks((), ()), id="nobody evaluates"),
        pytest.param(ranks((evaluation(),), (evaluation(),)), id="alike"),
        pytest.param(ranks((evaluation(3.0),), ()), id="rank 0 alone evaluates"),
        pytest.param(ranks((evaluation(),)), id="one rank"),
        pytest.param(
            {0: Facts((0,), (evaluation(),)), 1: Facts((1,), (evaluation(3.0),))},
            id="models of their own",
        ),
        pytest.param(ranks((Evaluation(()),), (Evaluation(()),)), id="no BatchNorm"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("other", [evaluation(0.4), evaluation(0.0, 1.9), evaluation(0.1, 0.6)])
def test_a_little_apart_is_told_and_no_more(other: Evaluation) -> None:
    (finding,) = judge(ranks((evaluation(),), (other,)))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (evaluation(0.6), "0.60 deviations apart"),
        (evaluation(0.0, 2.5), "by a factor of 2.50"),
        (evaluation(0.0, 0.25), "by a factor of 4.00"),
    ],
)
def test_far_apart_is_a_warning(other: Evaluation, words: str) -> None:
    facts = ranks((evaluation(), evaluation()), (evaluation(), other), (evaluation(), evaluation()))
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (
        Severity.WARNING,
        (0, 1, 2),
        LINE,
    )
    assert "at the start of evaluation 1 the running means of head.bn" in finding.message
    assert words in finding.message


def test_summary_and_skip() -> None:
    told = summarize(ranks((evaluation(),), ()))
    assert told == "1 evaluations of a model with BatchNorm begun"
    with pytest.raises(Skip, match="only ddpcheck watch"):
        Observer(context_with()).facts()
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
