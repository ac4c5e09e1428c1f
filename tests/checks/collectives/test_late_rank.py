import random
from collections.abc import Sequence
from typing import Any

import pytest

from ddpcheck.checks.collectives.late_rank import Facts, judge, summarize
from ddpcheck.finding import Severity
from ddpcheck.measures.lateness import STRETCH_TURNS, Turns

TURN_S = 0.004
WAITS = 40


def ranks(
    *factors: float,
    noise: float = 0.02,
    kinds: Sequence[str] = (),
    seed: int = 0,
    stretches: int = 20,
) -> dict[int, Facts]:
    """Return ranks that compute so many times as long as usual, and wait for the slowest one."""
    dice = random.Random(seed)
    computed = [
        [TURN_S * factor * (1 + abs(dice.gauss(0, noise))) for factor in factors]
        for _ in range(stretches * STRETCH_TURNS)
    ]
    return {
        rank: facts_of(rank, [turn[rank] for turn in computed], computed, kinds)
        for rank in range(len(factors))
    }


def facts_of(
    rank: int, own: Sequence[float], computed: Sequence[Sequence[float]], kinds: Sequence[str]
) -> Facts:
    fastest = [min(own[at : at + STRETCH_TURNS]) for at in range(0, len(own), STRETCH_TURNS)]
    waits = [max(turn) - turn[rank] + 1e-4 for turn in computed[:WAITS]]
    turns = Turns(tuple(fastest), sum(own) / len(own), tuple(waits))
    return Facts(f"node{rank // 2}", kinds[rank] if kinds else "H200", turns)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("world", [2, 3, 8])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
def test_equal_ranks_are_silent_whatever_the_noise(world: int, noise: float, seed: int) -> None:
    assert judge(ranks(*[1.0] * world, noise=noise, seed=seed)) == []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("world", "slow"), [(2, 0), (2, 1), (3, 1), (8, 5)])
def test_a_rank_that_is_a_tenth_slower_is_named(world: int, slow: int, seed: int) -> None:
    factors = [1.1 if rank == slow else 1.0 for rank in range(world)]
    (finding,) = judge(ranks(*factors, noise=0.01, seed=seed))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (slow,))
    assert f"rank {slow} (node{slow // 2}) by " in finding.message
    assert finding.title == f"1 of {world} ranks compute more slowly than the others"
    assert f"{WAITS} turns the others waited" in finding.message
    assert f"{finding.fix}".startswith("on the named host")


def test_several_slow_ranks_are_one_finding() -> None:
    (finding,) = judge(ranks(1, 1.3, 1, 1, 1.2, 1, 1, 1))
    assert finding.ranks == (1, 4)


@pytest.mark.parametrize(
    ("factors", "who"),
    [
        ((1, 1, 1.2, 1.2, 1, 1), "all ranks of node1 compute"),
        ((1, 1, 1.2, 1, 1, 1), "1 of 6 ranks compute"),
        ((1, 1.2, 1.2, 1.2, 1, 1, 1, 1), "3 of 8 ranks compute"),
    ],
)
def test_a_host_all_of_whose_ranks_are_slow_is_named(factors: Sequence[float], who: str) -> None:
    (finding,) = judge(ranks(*factors))
    assert finding.title == f"{who} more slowly than the others"


def test_gpus_of_another_model_are_no_peers() -> None:
    assert judge(ranks(1, 2, 1, 2, kinds="abab")) == []
    assert judge(ranks(1, 2, kinds="ab")) == []
    (finding,) = judge(ranks(1, 2, 1, 2.5, kinds="abab"))
    assert finding.ranks == (3,)


@pytest.mark.parametrize("kind", ["cpu", "H200"])
def test_a_rank_that_is_slow_for_a_while_is_no_finding(kind: str) -> None:
    """Its core is at half its speed for 2 of 20 stretches."""
    facts = ranks(1, 1, noise=0, kinds=[kind, kind])
    fastest = (TURN_S * 2,) * 2 + (TURN_S,) * 18
    facts[1] = Facts("node0", kind, Turns(fastest, TURN_S * 1.1, facts[1].turns.wait_s))
    assert judge(facts) == []


def test_a_core_is_not_judged_by_a_single_stretch() -> None:
    cores = ["cpu", "cpu"]
    assert judge(ranks(1, 1.6, kinds=cores, stretches=1)) == []
    (finding,) = judge(ranks(1, 2.4, kinds=cores, stretches=1))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))


def test_a_rank_that_is_stopped_between_turns_is_named_by_all_of_them() -> None:
    """As one that has used up the time of its container is: its other turns are as fast as ever."""
    facts = ranks(1, 1, noise=0)
    turns = Turns((TURN_S,) * 20, TURN_S * 1.5, facts[1].turns.wait_s)
    facts[1] = Facts("node0", "H200", turns)
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert "by 50% over all turns; limit 25%" in finding.message


def test_waiting_counts_for_who_came_last() -> None:
    facts = ranks(1, 1.5, 1, noise=0)
    (finding,) = judge(facts)
    waited = dict[str, Any](finding.evidence)["waited_s"]
    assert waited["1"] == pytest.approx(WAITS * 0.5 * TURN_S, rel=0.01)
    assert waited["0"] == waited["2"] == 0
    assert "s for rank 1, the most" in summarize(facts)


def test_between_cpus_it_is_only_told() -> None:
    (finding,) = judge(ranks(1, 1.3, kinds=["cpu", "cpu"]))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
