from typing import Any

import pytest
from msgspec import structs

from ddpcheck.checks.gradients.loss_denominators_differ import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.means import Mean

LINE = Location("train.py", 15, "step")
OTHER = Location("train.py", 16, "step")
PAIR = (0, 1)


def rank(
    *counted: int,
    targets: int = 10,
    alone: bool = False,
    group: tuple[int, ...] = PAIR,
    line: Location = LINE,
) -> Facts:
    """Return a rank whose steps' means are over so many targets, each alone or all in one run."""
    runs = (n if alone else 1 for n in counted)
    pairs = enumerate(zip(counted, runs, strict=True))
    means = (Mean(0, step, 0, targets, n, run, 1.0) for step, (n, run) in pairs)
    return Facts(tuple(means), (line,), group)


def masked(*counted: int) -> Facts:
    """Return a rank with words that are masked here and there."""
    return rank(*counted * 6, targets=128, alone=True)


def weighted(*counted: int) -> Facts:
    """Return a rank that weights its means by what they are over."""
    means = (Mean(0, step, 0, 500, n, 1, n / 100) for step, n in enumerate(counted))
    return Facts(tuple(means), (LINE,), PAIR)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: rank(10, 10), 1: rank(10, 10)}, id="nothing ignored"),
        pytest.param({0: rank(200, 210), 1: rank(205, 199)}, id="about as many"),
        pytest.param({0: weighted(100, 300), 1: weighted(400, 50)}, id="weighted by the script"),
        pytest.param(
            {0: masked(17, 21), 1: masked(20, 16)},
            id="masked by chance",
        ),
        pytest.param({0: rank(100)}, id="one rank alone"),
        pytest.param(
            {0: rank(100, 100, group=(0,)), 1: rank(900, 900, group=(1,))}, id="own groups"
        ),
        pytest.param(
            {0: rank(100, 100), 1: rank(900, 900, line=OTHER)}, id="means at different lines"
        ),
        pytest.param({0: rank(0, 0), 1: rank(0, 0)}, id="nothing but what is ignored"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_ranks_with_few_and_many_targets() -> None:
    (finding,) = judge({0: rank(*[2] * 6), 1: rank(*[8] * 6)})
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert (finding.ranks, finding.location) == ((0, 1), LINE)
    assert "2 of 10 targets on rank 0, 8 of 10 on rank 1 in step 0" in finding.message
    assert "30% of the weight" in finding.message
    assert "limit 5%" in finding.message
    assert finding.evidence["counted"] == {"0": 2, "1": 8}


def test_another_mean_of_the_line_does_not_hide_it() -> None:
    equal = (Mean(0, step, 7, 0, 16, 0, 1.0, by_hand=True) for step in range(6))
    one = rank(*[2] * 6)
    facts = {0: one, 1: rank(*[8] * 6)}
    also = tuple(equal)
    facts = {r: Facts(own.means + also, own.lines, own.group) for r, own in facts.items()}
    (finding,) = judge(facts)
    assert finding.severity is Severity.WARNING
    assert "in a typical step 30%" in finding.message


def test_a_hook_of_the_script_s_own_may_weigh_the_means() -> None:
    facts = {0: rank(*[2] * 6), 1: rank(*[8] * 6)}
    facts = {r: Facts(own.means, own.lines, own.group, own_hook=True) for r, own in facts.items()}
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO
    assert "unless a hook of the script's own" in finding.message


def test_the_worst_step_is_shown() -> None:
    (finding,) = judge({0: rank(300, 100, 200), 1: rank(200, 400, 330)})
    assert "in step 1, where 30% of" in finding.message
    assert "in a typical step 12%" in finding.message


def test_masked_words_that_are_no_chance() -> None:
    (finding,) = judge({0: masked(12, 10), 1: masked(21, 19)})
    assert finding.severity is Severity.WARNING


def test_batches_of_different_sizes_are_no_chance() -> None:
    (finding,) = judge({0: rank(2, 2, targets=2), 1: rank(4, 4, targets=4)})
    assert finding.severity is Severity.WARNING


def test_a_last_batch_that_is_smaller_on_one_rank_is_no_fault() -> None:
    whole = [Mean(0, step, 0, 8, 8, 1, 1.0) for step in range(4)]
    cut = [*whole[:3], Mean(0, 3, 0, 2, 2, 1, 1.0)]
    (finding,) = judge({0: Facts(tuple(cut), (LINE,), PAIR), 1: Facts(tuple(whole), (LINE,), PAIR)})
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
    assert finding.title.endswith("in step 3")


def test_several_groups_and_lines() -> None:
    apart, alike = rank(100, 100, group=(2, 3)), rank(500, 500)
    found = judge({0: alike, 1: alike, 2: apart, 3: rank(400, 400, group=(2, 3), targets=500)})
    assert [each.ranks for each in found] == [(2, 3)]
    few, many = Mean(1, 0, 0, 900, 100, 1, 1.0), Mean(0, 0, 0, 900, 500, 1, 1.0)
    first = Facts((Mean(0, 0, 0, 9, 9, 1, 1.0), few), (OTHER, LINE), PAIR)
    second = Facts((many, Mean(1, 0, 0, 9, 9, 1, 1.0)), (LINE, OTHER), PAIR)
    assert [each.location for each in judge({0: first, 1: second})] == [LINE]


def test_a_mean_that_only_one_rank_takes_is_left_out() -> None:
    more = rank(*[8] * 5)
    assert judge({0: rank(8, 8), 1: more}) == []
    assert summarize({0: rank(8, 8), 1: more}) == "2 means over targets compared"


def told(*gradients: float, **more: Any) -> dict[int, Facts]:
    """Return ranks of 2 and 8 targets in each step, to whose means such gradients came."""
    counted = zip((2, 8), gradients or (1.0, 1.0), strict=True)
    return {
        rank: Facts(
            tuple(Mean(0, step, 0, 10, n, 1, 1.0, factor=came, **more) for step in range(6)),
            (LINE, OTHER),
            PAIR,
        )
        for rank, (n, came) in enumerate(counted)
    }


def test_what_is_multiplied_later_may_make_it_right() -> None:
    assert judge(told(2.0, 8.0)) == []
    assert judge(told(4.0, 4.0)) != []


def test_what_is_multiplied_later_does_not_make_it_wrong() -> None:
    facts = {0: rank(*[8] * 4), 1: rank(*[8] * 4)}
    clipped = tuple(structs.replace(mean, factor=0.2) for mean in facts[0].means)
    assert judge({0: structs.replace(facts[0], means=clipped), 1: facts[1]}) == []


def test_the_line_of_a_mean_by_hand_is_that_of_its_division() -> None:
    (finding,) = judge(told(by_hand=True, made_at=1))
    assert finding.location == OTHER
    assert "over 2 targets on rank 0, 8 on rank 1 in step 0" in finding.message


def test_one_target_is_told_of_as_one() -> None:
    (finding,) = judge({0: rank(1, 1), 1: rank(9, 9)})
    assert "1 of 10 targets on rank 0, 9 of 10 on rank 1" in finding.message
    by_hand = {
        r: Facts(tuple(structs.replace(m, by_hand=True) for m in own.means), own.lines, own.group)
        for r, own in {0: rank(*[1] * 9), 1: rank(*[60] * 9)}.items()
    }
    (finding,) = judge(by_hand)
    assert "over 1 target on rank 0, 60 on rank 1" in finding.message
