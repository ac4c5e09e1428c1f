import pytest

from ddpcheck.checks.performance.waits_for_one_rank import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.blocks import Block

LOOP, FORWARD = Location("/train.py", 12, "train"), Location("/train.py", 14, "train")
BACKWARD = Location("/train.py", 15, "train")
ALL = (0, 1)
# Seconds in the loader, of work before the model, and of the step.
QUICK, SLOW, BUSY = (0.001, 0.001, 0.06), (0.05, 0.001, 0.06), (0.001, 0.05, 0.06)


def ranks(
    *own: tuple[float, float, float],
    blocks: int = 4,
    group: tuple[int, ...] = ALL,
    fetches: int = 4,
    sure: bool = True,
    batch_s: tuple[float, ...] = (),
) -> dict[int, Facts]:
    """Return ranks whose blocks are all alike; a batch takes what the loader does, or ``batch_s``."""
    facts: dict[int, Facts] = {}
    for rank, each in enumerate(own):
        own_blocks = (Block(*each, fetches),) * blocks
        needs_s = batch_s[rank] if batch_s else each[0]
        facts[rank] = Facts(own_blocks, 2, needs_s, group, LOOP, FORWARD, own_is_sure=sure)
    return facts


def mixed(*of_rank_1: tuple[float, float, float]) -> dict[int, Facts]:
    """Return two ranks, of which the second one has these blocks."""
    return {
        0: ranks(QUICK, blocks=len(of_rank_1))[0],
        1: Facts(tuple(Block(*each) for each in of_rank_1), 0, 0.05, ALL, LOOP, FORWARD),
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(QUICK, QUICK), id="nobody is late"),
        pytest.param(ranks(QUICK), id="a rank by itself"),
        pytest.param(ranks(QUICK, SLOW, blocks=1), id="too few steps"),
        pytest.param(ranks(QUICK, (0.009, 0.001, 0.02)), id="late by less than 10 ms"),
        pytest.param(ranks((0, 0, 0.2), (0.03, 0, 0.2)), id="late by a small part of the step"),
        pytest.param(
            ranks((0.02, 0, 0.1), (0.06, 0, 0.1)),
            id="a busy machine has made it three times as long",
        ),
        pytest.param(mixed(SLOW, QUICK, SLOW, QUICK), id="late in half of the blocks"),
        pytest.param(ranks((0.001, 0, 0.02), (0.05, 0, 0.07)), id="nobody waits for it"),
        pytest.param(ranks(QUICK, SLOW, fetches=0), id="later stages of a pipeline load nothing"),
        pytest.param(ranks(QUICK, BUSY, sure=False), id="it may have waited there itself"),
        pytest.param(
            ranks((0.001, 0.05, 0.06), (0.05, 0.001, 0.06), fetches=0),
            id="a wait for the other's loader is no work",
        ),
    ],
)
def test_healthy_steps_are_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize("world", [2, 3, 8])
def test_a_rank_with_a_slow_loader_is_named_with_its_loop(world: int) -> None:
    everyone = tuple(range(world))
    (finding,) = judge(ranks(*[QUICK] * (world - 1), SLOW, group=everyone))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (world - 1,))
    assert finding.location == LOOP
    assert "takes 50 ms a step, that of the others 1.0 ms: 82% of the step" in finding.message
    assert "2 workers" in finding.message


@pytest.mark.parametrize("batch_s", [(0.045, 0.05), (0.0, 0.0)], ids=["alike", "not seen"])
def test_a_loader_that_is_only_a_little_behind_is_only_told(batch_s: tuple[float, ...]) -> None:
    # The other one, as slow, has its batches ready while it waits in the step.
    (finding,) = judge(ranks(QUICK, SLOW, batch_s=batch_s))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    assert "not seen to be much slower" in finding.message


def test_two_late_ranks_of_several_are_both_named() -> None:
    found = judge(ranks(SLOW, QUICK, QUICK, SLOW, QUICK, group=tuple(range(5))))
    assert [each.ranks for each in found] == [(0,), (3,)]


def test_one_quiet_block_changes_nothing() -> None:
    (finding,) = judge(mixed(SLOW, SLOW, QUICK, SLOW))
    assert "in 75% of the blocks" in finding.message


def test_work_of_one_rank_before_the_model_is_named_with_the_model() -> None:
    (finding,) = judge(ranks(BUSY, QUICK))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0,))
    assert finding.location == FORWARD


@pytest.mark.parametrize(
    ("seconds", "line", "said"),
    [
        ((0.05, 0.0), FORWARD, "its forward pass up to the loss takes 50 ms"),
        ((0.0, 0.05), BACKWARD, "its own work after the backward pass takes 50 ms"),
    ],
)
def test_work_of_one_rank_elsewhere_in_the_step_is_named_with_its_place(
    seconds: tuple[float, float], line: Location, said: str
) -> None:
    of_ranks = {0: (0.001, 0.001), 1: seconds}
    (finding,) = judge(
        {
            rank: Facts(
                (Block(0.0, 0.0, 0.06, 4, *own),) * 4,
                group=ALL,
                forward=FORWARD,
                backward=BACKWARD,
            )
            for rank, own in of_ranks.items()
        }
    )
    assert (finding.severity, finding.ranks, finding.location) == (Severity.WARNING, (1,), line)
    assert said in finding.message


def test_forward_passes_that_are_long_everywhere_are_silent() -> None:
    own = (Block(0.0, 0.0, 0.06, 4, 0.05, 0.005),) * 4
    assert judge({rank: Facts(own, group=ALL) for rank in ALL}) == []


def test_a_rank_that_waits_for_a_loader_by_itself_is_not_blamed() -> None:
    # Rank 0 waits, in a way that nobody sees, for rank 1 that loads.
    found = judge(ranks((0.001, 0.05, 0.06), (0.05, 0.001, 0.06)))
    assert [each.ranks for each in found] == [(1,)]


def test_groups_are_looked_at_one_by_one() -> None:
    facts = {
        rank: Facts(
            (Block(*(SLOW if rank > 1 else QUICK)),) * 4,
            0,
            0.05,
            (rank // 2 * 2, rank // 2 * 2 + 1),
        )
        for rank in range(4)
    }
    assert [each.severity for each in judge(facts) if each.severity is not Severity.INFO] == []


def test_loaders_that_are_slow_everywhere_are_only_told() -> None:
    (finding,) = judge(ranks(SLOW, SLOW))
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "at least 83% of a step, and 50 ms" in finding.message


def test_summary() -> None:
    assert summarize(ranks(QUICK, SLOW)) == "at most 83% of a step goes to the loader, on rank 1"
