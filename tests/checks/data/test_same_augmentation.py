from collections.abc import Sequence

import pytest

from ddpcheck.checks.data.same_augmentation import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.drawn import Drawn

LOOP = Location("/train.py", 12, "train")
ALL = (0, 1)


def drawn(
    states: Sequence[str], indices: Sequence[str], kind: str = "torch", draws: int = 16
) -> tuple[Drawn, ...]:
    """Return fetches of 8 samples each, with these states before them."""
    pairs = zip(states, indices, strict=True)
    return tuple(
        Drawn(kind, (0, -1, number), state, own, draws, 8)
        for number, (state, own) in enumerate(pairs)
    )


def ranks(
    *own: Sequence[Drawn], group: tuple[int, ...] = ALL, workers: bool = False
) -> dict[int, Facts]:
    return {rank: Facts(tuple(draws), group, workers, LOOP) for rank, draws in enumerate(own)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(drawn("abcd", "1234"), drawn("efgh", "5678")), id="seeds of their own"),
        pytest.param(ranks((), ()), id="nothing is drawn"),
        pytest.param(ranks(drawn("abcd", "1234"), ()), id="one rank draws nothing"),
        pytest.param(ranks(drawn("ab", "12"), drawn("ab", "56")), id="too few fetches"),
        pytest.param(ranks(drawn("abcd", "1234"), drawn("abcd", "1234")), id="the same samples"),
        pytest.param(
            ranks(drawn("abcd", "1234"), drawn("abcd", "1256")),
            id="other samples only now and then",
        ),
        pytest.param(
            ranks(drawn("aaaa", "1234"), drawn("aaaa", "5678")),
            id="each sample seeds the generator",
        ),
        pytest.param(
            ranks(drawn("abcd", "1234"), drawn("abxy", "5678")), id="they come apart after a while"
        ),
        pytest.param(
            ranks(drawn("abcd", "1234"), drawn("abcd", "5678", "numpy")), id="other generators"
        ),
        pytest.param(ranks(drawn("abcd", "1234")), id="a rank by itself"),
    ],
)
def test_healthy_draws_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("workers", [True, False])
def test_the_same_draws_for_other_samples_are_a_warning_at_the_loop(workers: bool) -> None:
    (finding,) = judge(ranks(drawn("abcd", "1234"), drawn("abcd", "5678"), workers=workers))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert finding.location == LOOP
    assert "in 4 of the first fetches the generators (torch)" in finding.message
    assert "torch.manual_seed(seed + rank)" in finding.fix


def test_a_dataset_that_keeps_its_generator_is_told_what_to_seed() -> None:
    own = [drawn("abcd", indices, "the dataset's own") for indices in ("1234", "5678")]
    (finding,) = judge(ranks(*own))
    assert "the generators (the dataset's own)" in finding.message
    assert "seed each rank for itself" in finding.fix
    assert "the generator that the dataset keeps by seed + rank" in finding.fix


def test_generators_of_the_same_ranks_are_told_together() -> None:
    own = [drawn("abcd", i) + drawn("efgh", i, "numpy") for i in ("1234", "5678")]
    (finding,) = judge(ranks(*own))
    assert "(torch, numpy)" in finding.message
    assert "numpy.random.seed(seed + rank)" in finding.fix


def test_only_the_ranks_that_draw_alike_are_named() -> None:
    facts = ranks(
        drawn("abcd", "1234"), drawn("efgh", "5678"), drawn("abcd", "1357"), group=(0, 1, 2)
    )
    (finding,) = judge(facts)
    assert finding.ranks == (0, 2)


@pytest.mark.parametrize("draws", [1, 7])
def test_a_draw_for_the_whole_batch_is_only_told(draws: int) -> None:
    own = (drawn("abcd", indices, draws=draws) for indices in ("1234", "5678"))
    (finding,) = judge(ranks(*own))
    assert finding.severity is Severity.INFO
    assert "which may be a choice for the whole batch" in finding.message


def test_summaries() -> None:
    assert "in 4 fetches" in summarize(ranks(drawn("abcd", "1234"), ()))
    assert "in forked workers" in summarize(ranks((), (), workers=True))
