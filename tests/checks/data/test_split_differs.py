from types import SimpleNamespace

import pytest
from msgspec import structs

from ddpcheck.checks.data.split_differs import Facts, judge
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.held_out import Seen
from ddpcheck.measures.parts import Split
from ddpcheck.measures.shares import Share
from ddpcheck.watch.subsets import Parts, Subsets

LINE = Location("/data.py", 20, "setup")


def ranks(*digests: str, total: int = 100, is_shared: bool = True) -> dict[int, Facts]:
    """Return ranks that split alike where their letters are the same."""
    return {
        rank: Facts((Split(total, (80, 20), digest, LINE, is_shared),))
        for rank, digest in enumerate(digests)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("a", "a"), id="the same parts"),
        pytest.param(ranks("a"), id="one rank"),
        pytest.param(ranks("a", "a") | {2: Facts(())}, id="rank 2 splits nothing"),
        pytest.param(
            ranks("a", "b") | {1: Facts((Split(90, (72, 18), "b"),))}, id="shards of other lengths"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_other_parts_of_a_shared_dataset_are_an_error_at_the_split() -> None:
    (finding,) = judge(ranks("a", "a", "b", "a"))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.location) == ((0, 1, 2, 3), LINE)
    assert "parts of 80 and 20: rank 2 has other samples" in finding.message


def test_ranks_may_have_datasets_of_their_own() -> None:
    (finding,) = judge(ranks("a", "b", is_shared=False))
    assert finding.severity is Severity.INFO
    assert "unless each rank has a dataset of its own" in finding.message


def own(train: list[int], held_out: list[int], *, is_shared: bool = True) -> Facts:
    """Return a rank that makes two Subsets of ten samples by itself."""
    subsets = Subsets()
    dataset = range(10)
    for indices in (train, held_out):
        subsets.add(SimpleNamespace(dataset=dataset, indices=indices), LINE)
    return Facts((), tuple(_split(parts, is_shared=is_shared) for parts in subsets.parts()))


def _split(parts: Parts, *, is_shared: bool) -> Split:
    samples, lengths = tuple(parts.samples), tuple(parts.lengths)
    return Split(parts.total, lengths, parts.digest, parts.location, is_shared, samples)


def test_subsets_of_the_script_s_own_that_mix_the_ranks_parts() -> None:
    facts = {0: own([0, 1, 2, 3], [4, 5]), 1: own([2, 3, 4, 5], [0, 1])}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert finding.title == "Subsets give the ranks different parts"
    assert "of 10 samples, parts of 4 and 2" in finding.message


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: own([0, 1, 2], [4]), 1: own([0, 1, 2], [4])}, id="the same"),
        pytest.param({0: own([0, 1], [8]), 1: own([2, 3], [9])}, id="shares of the same parts"),
        pytest.param({0: own([0, 1, 2], [4]), 1: own([5, 6], [0])}, id="of other lengths"),
        pytest.param({0: own([0, 1], [1, 2]), 1: own([3, 4], [4, 5])}, id="no parts: they overlap"),
        pytest.param({0: own([0, 1], [])}, id="one alone"),
    ],
)
def test_subsets_that_are_right(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_subsets_of_what_may_be_a_dataset_of_the_rank_s_own() -> None:
    facts = {
        0: own([0, 1, 2, 3], [4, 5], is_shared=False),
        1: own([2, 3, 4, 5], [0, 1], is_shared=False),
    }
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


LOW, HIGH = tuple(range(20)), tuple(range(20, 40))


def seen(trained: tuple[int, ...], held_out: tuple[int, ...], *, group: tuple[int, ...]) -> Facts:
    return Facts((), seen=Seen(trained, held_out, group, LINE))


def test_samples_that_others_hold_out_are_an_error_where_they_are_evaluated_on() -> None:
    facts = {0: seen(LOW, HIGH, group=(0, 1)), 1: seen(HIGH, LOW, group=(0, 1))}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, (0, 1), LINE)
    assert "of 40 samples" in finding.message
    assert "others train on 40" in finding.message
    for generator in ("torch.Generator()", "numpy.random.default_rng", "random.Random"):
        assert generator in finding.fix


def test_samples_make_sure_of_a_split_that_was_seen() -> None:
    splits = ranks("a", "b", is_shared=False)
    rows = {0: Seen(LOW, HIGH, (0, 1), None), 1: Seen(HIGH, LOW, (0, 1), None)}
    facts = {rank: Facts(own.splits, seen=rows[rank]) for rank, own in splits.items()}
    (finding,) = judge(facts)
    assert (finding.severity, finding.location) == (Severity.ERROR, LINE)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(
            {0: seen(LOW, HIGH, group=(0, 1)), 1: seen(LOW, HIGH, group=(0, 1))}, id="one split"
        ),
        pytest.param(
            {0: seen(LOW, HIGH, group=(0,)), 1: seen(HIGH, LOW, group=(1,))},
            id="each trains a model of its own",
        ),
        pytest.param(
            {0: seen(LOW, HIGH, group=()), 1: seen(HIGH, LOW, group=())}, id="without DDP"
        ),
    ],
)
def test_samples_that_are_held_out_by_all(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


SHARE = Share(LINE, 0, 128, 2, 0, True, 42, (0, 1))
ALL = (0, 1)


def shared(*changes: dict[str, object], group: tuple[int, ...] = ALL) -> dict[int, Facts]:
    """Return ranks that take a share each, by options that were changed."""
    shares = [structs.replace(SHARE, **{"rank": at} | each) for at, each in enumerate(changes)]
    return {at: Facts((), shares=(share,), group=group) for at, share in enumerate(shares)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (({"seed": 42}, {"seed": 43}), "of 128 samples"),
        (({"seed": 42}, {"seed": 43}), "seed differs (rank 0: 42, rank 1: 43)"),
        (({}, {"shuffles": False}), "shuffle differs (rank 0: True, rank 1: False)"),
        (({}, {"replicas": 4}), "num_replicas differs (rank 0: 2, rank 1: 4)"),
        (({}, {"epochs": (0, 0)}), "epoch differs (rank 0: 1, rank 1: 0)"),
    ],
)
def test_samplers_whose_shares_overlap(changes: tuple[dict[str, object], ...], says: str) -> None:
    (finding,) = judge(shared(*changes))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.location) == (ALL, LINE)
    assert says in finding.message
    assert "the same" in finding.fix


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(shared({}, {}), id="one seed"),
        pytest.param(shared({}, {"epochs": (0,)}), id="one is further on"),
        pytest.param(shared({"seed": 1}), id="one rank"),
        pytest.param(
            shared({"seed": 1, "shuffles": False}, {"seed": 2, "shuffles": False}), id="in order"
        ),
        pytest.param(
            shared({"seed": 1, "epochs": (2, 3)}, {"seed": 2, "epochs": (1, 2)}), id="one order"
        ),
        pytest.param(
            shared({"seed": 1, "replicas": 1}, {"seed": 2, "replicas": 1}),
            id="each draws from the whole",
        ),
        pytest.param(shared({"seed": 1}, {"seed": 2, "rank": 0}), id="shares of datasets by host"),
        pytest.param(shared({"seed": 1}, {"seed": 2, "samples": 90}), id="other datasets"),
        pytest.param(shared({"seed": 1}, {"seed": 2, "number": 1}), id="other samplers"),
        pytest.param(shared({"seed": 1}, {"seed": 2}, group=()), id="no model in common"),
    ],
)
def test_samplers_that_are_right(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
