import pytest

from ddpcheck.checks.data.uneven_epochs import Facts, judge, summarize
from ddpcheck.finding import Location, Severity
from ddpcheck.measures.epochs import Epoch, Feeding

LOOP = Location("/train.py", 12, "train")
ALL = (0, 1)
ELSEWHERE = Feeding(Location("/train.py", 30, "evaluate"), (Epoch(2, is_over=True),))


def feeding(*batches: int, goes_on: bool = False) -> Feeding:
    """Return epochs of so many batches, the last of them not over yet if it goes on."""
    epochs = [Epoch(count, is_over=True) for count in batches]
    if goes_on:
        epochs[-1] = Epoch(batches[-1])
    return Feeding(LOOP, tuple(epochs))


def ranks(*feeds: Feeding, group: tuple[int, ...] = ALL, joins: bool = False) -> dict[int, Facts]:
    return {rank: Facts((feed,), group, joins) for rank, feed in enumerate(feeds)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(feeding(5, 5), feeding(5, 5)), id="as many on each"),
        pytest.param(ranks(feeding(5), feeding(4, goes_on=True)), id="one is a batch behind"),
        pytest.param(ranks(feeding(5, 2, goes_on=True), feeding(5)), id="one is an epoch ahead"),
        pytest.param(ranks(feeding(5), feeding(4), joins=True), id="inside of join()"),
        pytest.param(
            ranks(*(Feeding(LOOP, (Epoch(n, True, False),)) for n in (5, 4))), id="an evaluation"
        ),
        pytest.param(
            {0: Facts((feeding(5),), ALL), 1: Facts((feeding(5), feeding(2)), ALL)},
            id="rank 1 has a loader of its own",
        ),
        pytest.param(
            {0: Facts((ELSEWHERE, feeding(5)), ALL), 1: Facts((feeding(3),), ALL)},
            id="rank 0 begins with a loader of its own",
        ),
        pytest.param(
            {
                0: Facts((Feeding(LOOP, (Epoch(0, True, False),)), feeding(5)), ALL),
                1: Facts((feeding(5),), ALL),
            },
            id="rank 0 alone evaluates first, by the same loop",
        ),
        pytest.param(
            ranks(Feeding(LOOP, (Epoch(4, is_over=True), Epoch(1)), cycles=True), feeding(5)),
            id="a loop that counts steps",
        ),
        pytest.param({0: Facts((feeding(3),), (0,)), 1: Facts((feeding(4),), (1,))}, id="alone"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "short", "words"),
    [
        (ranks(feeding(5, 5), feeding(4, 4)), (1,), "rank 0: 5, rank 1: 4"),
        (ranks(feeding(4, 2, goes_on=True), feeding(6, goes_on=True)), (0,), "rank 1: 6 and on"),
        (ranks(feeding(5, 5), feeding(5, 3)), (1,), "rank 0: 5, rank 1: 3"),
        (
            ranks(feeding(5), feeding(4), feeding(4), feeding(5), group=(0, 1, 2, 3)),
            (1, 2),
            "rank 0: 5, rank 1: 4, rank 2: 4, rank 3: 5",
        ),
    ],
)
def test_ranks_that_run_out_first_are_named(
    facts: dict[int, Facts], short: tuple[int, ...], words: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks, finding.location) == (Severity.ERROR, short, LOOP)
    assert words in finding.message


def test_who_evaluates_already_has_run_out_first() -> None:
    facts = {0: Facts((feeding(5, goes_on=True),), ALL), 1: Facts((feeding(4), ELSEWHERE), ALL)}
    (finding,) = judge(facts)
    assert (finding.ranks, finding.location) == ((1,), LOOP)


def test_summary() -> None:
    assert summarize(ranks(feeding(5, 5), feeding(5, 5))) == "2 epochs came to their end"


def test_batches_that_a_rank_left_out_are_told() -> None:
    short = Feeding(LOOP, (Epoch(15, is_over=True, fetched=20),))
    (finding,) = judge(ranks(short, Feeding(LOOP, (Epoch(20, is_over=True, fetched=20),))))
    assert "rank 0: 15, 5 left out, rank 1: 20" in finding.message.replace(" and ", ", ")
    assert "on all ranks together" in finding.fix
