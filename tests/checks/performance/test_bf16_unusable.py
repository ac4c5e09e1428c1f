import pytest

from ddpcheck.checks.performance.bf16_unusable import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Severity

Ranks = dict[int, Facts]

NAN, INF = float("nan"), float("inf")


def rank(loss: float = 5.0, bf16: float | None = 5.0, speed: float = 2.0) -> Facts:
    return Facts("cuda:0", loss, bf16, 0.01 * speed, 0.01)


def ranks(world: int, *odd: int, fact: Facts | None = None) -> Ranks:
    return {each: fact if fact and each in odd else rank() for each in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1), id="one rank"),
        pytest.param(ranks(2), id="two ranks"),
        pytest.param(ranks(8), id="eight ranks"),
        pytest.param(ranks(2, 1, fact=rank(5.0, 5.099)), id="just within the limit"),
        pytest.param(ranks(2, 1, fact=rank(-5.0, -4.91)), id="a negative loss"),
        pytest.param(ranks(2, 0, 1, fact=rank(speed=0.1)), id="slow is no finding"),
        pytest.param(ranks(2, 0, 1, fact=rank(0.0, 0.0)), id="a loss of zero"),
        pytest.param({4: rank(), 6: rank()}, id="ranks that told nothing"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "bad", "shown"),
    [
        pytest.param(ranks(1, 0, fact=rank(5.0, 5.25)), (0,), "off by 5.0%", id="the only rank"),
        pytest.param(ranks(2, 1, fact=rank(5.0, 4.75)), (1,), "off by 5.0%", id="rank 1 of two"),
        pytest.param(ranks(2, 0, 1, fact=rank(4.0, None)), (0, 1), " number", id="NaN on both"),
        pytest.param(ranks(8, 3, 6, fact=rank(5.0, 6.0)), (3, 6), "off by 20.0%", id="2 of 8"),
        pytest.param(
            {6: rank(5.0, None), 4: rank()}, (6,), " number", id="ranks that told nothing"
        ),
        pytest.param(ranks(2, 1, fact=rank(-5.0, 5.0)), (1,), "off by 200.0%", id="another sign"),
    ],
)
def test_another_loss_is_information(facts: Ranks, bad: tuple[int, ...], shown: str) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert finding.ranks == bad
    loss = facts[bad[0]].loss
    assert finding.message.startswith(f"rank {bad[0]}: loss {loss:.4g} in float32; in bfloat16 ")
    assert finding.message.endswith(f"{shown}, limit 2%")


@pytest.mark.parametrize("loss", [NAN, INF])
def test_a_loss_that_is_no_number_in_float32_says_nothing_of_bfloat16(loss: float) -> None:
    assert judge(ranks(2, 0, 1, fact=rank(loss, None))) == []


def test_summary_tells_the_worst_loss_and_the_gain() -> None:
    facts = {0: rank(), 1: rank(5.0, 5.05), 2: Facts("cuda:0", 5.0, 5.0, 0.03, 0.02)}
    assert summarize(facts) == "bf16: loss within 1.00%, speed 1.50x of fp32"


@pytest.mark.parametrize(
    ("facts", "value", "words"),
    [
        pytest.param(ranks(1), "bf16", ["2.00x", "loss within 0.00%"], id="one rank"),
        pytest.param(ranks(8), "bf16", ["2.00x"], id="faster on all"),
        pytest.param(ranks(8, 5, fact=rank(speed=1.09)), "fp32", ["1.09x"], id="little on one"),
        pytest.param(ranks(8, 5, fact=rank(speed=1.11)), "bf16", ["1.11x"], id="enough on all"),
        pytest.param(ranks(2, 1, fact=rank(speed=0.05)), "fp32", ["0.05x"], id="emulated on one"),
        pytest.param(ranks(8, 5, fact=rank(5.0, 5.2)), "fp32", ["off by 4.0%"], id="wrong on one"),
        pytest.param(ranks(2, 0, fact=rank(5.0, None)), "fp32", ["off by"], id="NaN on one"),
    ],
)
def test_bf16_is_recommended_where_it_is_right_and_faster_on_every_rank(
    facts: Ranks, value: str, words: list[str]
) -> None:
    recommended = recommend(facts)["precision"]
    assert recommended.value == value
    assert [word for word in words if word not in recommended.reason] == []


@pytest.mark.parametrize("world", [1, 2, 8])
def test_bf16_is_not_recommended_where_nothing_is_known_of_it(world: int) -> None:
    facts = ranks(world, 0, fact=rank(NAN, 5.0))
    assert recommend(facts)["precision"].value == "fp32"


def test_a_rank_that_knows_nothing_does_not_hide_a_rank_that_is_wrong() -> None:
    facts = {0: rank(NAN, 5.0), 1: rank(5.0, 7.5)}
    assert recommend(facts)["precision"].value == "fp32"
