from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import structs

from ddpcheck.checks.data.same_batches import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.sampled import Sampled

LOOP = Location("/train.py", 12, "train")
ALL = (0, 1)


def ranks(*batches: str, group: Sequence[int] = ALL, loads: bool = True) -> dict[int, Facts]:
    """Return ranks with these batches, a letter each."""
    return {
        rank: Facts(tuple(own), (), tuple(group), loads, LOOP) for rank, own in enumerate(batches)
    }


def parted(
    batches: str, parts: list[tuple[int, ...]], count: int = 2, by_hand: tuple[int, ...] = ()
) -> dict[int, Facts]:
    """Return ranks that have the same batches, and hold parts of one model."""
    return {
        rank: Facts(tuple(batches), parts=[p for p in parts if rank in p], by_hand=by_hand)
        for rank in range(count)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks("abcd", "efgh"), id="other batches"),
        pytest.param(ranks("abcd", "dcba"), id="the same data in another order"),
        pytest.param(ranks("abcd", "abce"), id="some in common"),
        pytest.param(ranks("aaaa", "aaaa"), id="one batch over and over"),
        pytest.param(ranks("a", "a"), id="one batch"),
        pytest.param({0: Facts(("", "")), 1: Facts(("", ""))}, id="nothing to be compared"),
        pytest.param(
            {r: Facts(tuple("abc" if r < 2 else "def"), (), (r % 2, r % 2 + 2)) for r in range(4)},
            id="tensor-parallel ranks in groups of their own",
        ),
        pytest.param(parted("abcd", [ALL]), id="tensor-parallel ranks"),
        pytest.param(
            parted("abcd", [ALL], by_hand=ALL), id="tensor-parallel ranks that sum gradients"
        ),
        pytest.param(parted("abcd", [(0, 1), (1, 2), (2, 3)], count=4), id="stages of a pipeline"),
    ],
)
def test_healthy_data_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_equal_batches_are_an_error_with_the_loop() -> None:
    (finding,) = judge(ranks("abcd", "abcdef"))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))
    assert finding.location == LOOP
    assert "the first 4 batches are equal bit by bit on ranks 0-1" in finding.message


def test_where_only_some_share_it_is_only_told() -> None:
    (finding,) = judge(ranks("abcd", "efgh", "abcd", "ijkl", group=range(4)))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 2))


def test_ranks_that_take_their_parts_of_one_batch_are_silent() -> None:
    facts = {r: Facts(tuple("abcd"), (f"part {r}",), ALL, True, LOOP) for r in ALL}
    assert judge(facts) == []


def test_equal_inputs_of_equal_batches_are_an_error() -> None:
    facts = {r: Facts(tuple("abcd"), tuple("wxyz"), ALL, True, LOOP) for r in ALL}
    (finding,) = judge(facts)
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize("facts", [ranks("ab", "ab", group=()), ranks("ab", "ab", loads=False)])
def test_without_ddp_or_a_loader_it_is_only_told(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO


def test_ranks_whose_parts_are_on_others_are_told() -> None:
    (finding,) = judge(parted("abcd", [(0, 2), (1, 3)]))
    assert finding.severity is Severity.INFO
    assert finding.fix.startswith("if each of them is to have batches of its own")


def test_where_gradients_are_averaged_by_hand_it_is_a_warning() -> None:
    (finding,) = judge(parted("abcd", [], by_hand=ALL))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, ALL)
    assert "among which gradients are averaged" in finding.message


def sharded(**told: object) -> dict[int, Facts]:
    """Return two ranks with equal batches, sharded by FSDP, of which the second one has this."""
    first = Facts(tuple("abcd"), (), ALL, True, LOOP, (0.5, 0.25))
    return {0: first, 1: structs.replace(first, **told)}


def test_equal_batches_and_losses_of_a_sharded_model_are_an_error() -> None:
    (finding,) = judge(sharded())
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0, 1))


@pytest.mark.parametrize("told", [{"losses": (0.5, 0.3)}, {"work_together": True}])
def test_ranks_may_share_the_sequences_of_a_batch(told: dict[str, object]) -> None:
    (finding,) = judge(sharded(**told))
    assert finding.severity is Severity.INFO


def test_summary() -> None:
    assert summarize(ranks("abcd", "ef")) == "the first 2 batches compared on 2 rank(s)"


def augmented(
    rank: int, *, noise: str = "", labels: str = "wxyz", draws: str = "abcd", host: str = "here"
) -> Sampled:
    """Return what is known of batches that this rank changes, a letter each; labels stay."""
    tensors = [(f"{at} of {noise or rank}", label) for at, label in enumerate(labels)]
    return Sampled(tuple(draws) or ("",) * 4, tuple(tensors), host)


def of_samples(*sampled: Sampled, group: tuple[int, ...] = ALL, **told: Any) -> dict[int, Facts]:
    """Return ranks with batches of their own, and these samples."""
    return {
        at: structs.replace(
            Facts(tuple(f"{at}{n}" for n in range(4)), (), group, True, LOOP),
            sampled=each,
            **told,
        )
        for at, each in enumerate(sampled)
    }


def test_the_same_samples_are_an_error_though_each_rank_changes_them() -> None:
    (finding,) = judge(of_samples(augmented(0), augmented(1)))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.location) == (ALL, LOOP)
    assert finding.title == "2 ranks train on the same samples"
    assert "the first 4 batches are of the same samples of one dataset" in finding.message


def test_a_sampler_of_the_script_s_own_may_mean_it() -> None:
    own = [structs.replace(augmented(rank), is_own=True) for rank in ALL]
    (finding,) = judge(of_samples(*own))
    assert finding.severity is Severity.WARNING


def test_ranks_with_parts_of_one_sequence_are_only_told() -> None:
    (finding,) = judge(of_samples(augmented(0), augmented(1), parts=[ALL]))
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(of_samples(augmented(0), augmented(1, draws="abce")), id="other samples"),
        pytest.param(of_samples(augmented(0, draws=""), augmented(1, draws="")), id="unknown ones"),
        pytest.param(
            of_samples(augmented(0, draws="aaaa"), augmented(1, draws="aaaa")), id="one batch"
        ),
        pytest.param(of_samples(augmented(0), augmented(1, labels="wxyv")), id="other labels"),
        pytest.param(
            of_samples(augmented(0, labels="wwww"), augmented(1, labels="wwww")), id="one label"
        ),
        pytest.param(
            of_samples(augmented(0), augmented(1, host="there")), id="hosts with files of their own"
        ),
        pytest.param(
            of_samples(augmented(0), augmented(1), group=(0, 1, 2, 3)), id="some of the ranks"
        ),
        pytest.param(of_samples(augmented(0), augmented(1), group=()), id="no model in common"),
        pytest.param(
            of_samples(
                *(augmented(rank, noise=str(rank // 2)) for rank in range(4)), group=(0, 1, 2, 3)
            ),
            id="pairs with the same batches",
        ),
        pytest.param(of_samples(Sampled(), Sampled()), id="nothing known"),
    ],
)
def test_samples_that_may_be_others(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []
