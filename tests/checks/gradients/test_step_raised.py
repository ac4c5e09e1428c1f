import msgspec
import pytest

from ddpcheck.checks.gradients.step_raised import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.testimony import VICTIM_WORDS

Ranks = dict[int, Facts]

HERE = Location("train.py", 41, "loss_of")
OWN = "ValueError: Expected input batch_size (3) to match target batch_size (4)."
MEMORY = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PEER = "RuntimeError: [pair.cc:547] Connection closed by peer [127.0.0.1]:53121"
UNUSED = "RuntimeError: Expected to have finished reduction in the prior iteration"


def fine(world: int, steps: int = 4) -> Ranks:
    return {rank: Facts(steps) for rank in range(world)}


def raised(error: str = OWN, at: float = 100.0, step: int = 1, place: Location = HERE) -> Facts:
    return Facts(step, error, step, at, place)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(fine(1), id="one rank"),
        pytest.param(fine(2), id="two ranks"),
        pytest.param(fine(8), id="eight ranks"),
        pytest.param({1: Facts(4), 6: Facts(4)}, id="ranks that told nothing"),
        pytest.param(fine(2, steps=0), id="no step was asked for"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "culprits", "message"),
    [
        pytest.param({0: raised()}, (0,), OWN, id="the only rank"),
        pytest.param(
            {0: raised(PEER, 100.2), 1: raised(OWN, 100.1)},
            (1,),
            f"{OWN} (rank 0 failed after it)",
            id="rank 1 of two",
        ),
        pytest.param(
            {0: raised(PEER, 99.0), 1: raised(OWN, 100.1)},
            (1,),
            f"{OWN} (rank 0 failed after it)",
            id="the victim's clock is slow",
        ),
        pytest.param(
            fine(8) | {rank: raised(PEER, 100.2) for rank in (0, 1, 2)} | {5: raised()},
            (5,),
            f"{OWN} (rank 0, 1, 2 failed after it)",
            id="one of eight, three victims",
        ),
        pytest.param(
            {rank: raised(at=100.0 + rank) for rank in range(8)},
            tuple(range(8)),
            OWN,
            id="the same on all",
        ),
        pytest.param(
            {0: raised(UNUSED), 1: raised(UNUSED, 100.2)}, (0, 1), UNUSED, id="unused parameters"
        ),
        pytest.param(
            {0: raised(UNUSED, 100.2), 1: raised(PEER)},
            (0,),
            f"{UNUSED} (rank 1 failed after it)",
            id="unused parameters on one rank",
        ),
        pytest.param(
            {2: raised(OWN, 100.2), 4: raised(MEMORY), 6: raised(OWN, 100.3)},
            (4,),
            f"{MEMORY} (rank 2, 6 failed after it)",
            id="the first of two kinds",
        ),
        pytest.param(
            {1: raised(OWN, 100.0, step=2), 0: raised(OWN, 100.1, step=3)},
            (1,),
            f"{OWN} (rank 0 failed after it)",
            id="the same in another step is another",
        ),
    ],
)
def test_the_rank_that_raised_first_is_blamed_and_not_its_victims(
    facts: Ranks, culprits: tuple[int, ...], message: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.ranks, finding.message) == (culprits, message)
    assert finding.location == HERE


def test_the_title_tells_the_culprits_step_and_the_evidence_what_each_rank_said() -> None:
    (finding,) = judge({0: raised(PEER, 100.5, step=7), 1: Facts(9), 2: raised(OWN, step=6)})
    assert finding.title == "the training raised in step 6"
    assert finding.evidence == {"errors": {"0": PEER, "2": OWN}}


def test_the_place_is_that_of_the_first_culprit() -> None:
    other = Location("data.py", 7, "collate")
    facts = {0: raised(at=100.2), 1: raised(at=100.1, place=other)}
    assert [finding.location for finding in judge(facts)] == [other]


def test_a_raise_without_a_place_has_none() -> None:
    (finding,) = judge({0: Facts(0, OWN, 0, 100.0)})
    assert finding.location is None


@pytest.mark.parametrize("words", VICTIM_WORDS)
def test_what_says_that_a_peer_has_gone_is_a_victim(words: str) -> None:
    assert raised(f"DistBackendError: {words} (1)").is_victim
    (finding,) = judge({0: raised(f"DistBackendError: {words}", 1.0), 1: raised(OWN, 2.0)})
    assert finding.ranks == (1,)


@pytest.mark.parametrize("error", [None, OWN, MEMORY, UNUSED])
def test_other_errors_are_nobodys_fault_but_their_own(error: str | None) -> None:
    assert not Facts(0, error).is_victim


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: [gloo/transport/tcp/pair.cc:632] Application timeout caused pair closure",
        "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
        "DistStoreError: Socket Timeout",
        "RuntimeError: Operation timed out!",
        "DistBackendError: Remote peer closed the connection.",
    ],
)
def test_other_words_for_a_peer_that_has_gone(error: str) -> None:
    (finding,) = judge({0: raised(error, 1.0), 1: raised(OWN, 2.0)})
    assert finding.ranks == (1,)


def test_when_only_victims_told_the_first_is_named_without_confidence() -> None:
    broken = "RuntimeError: Broken pipe"
    facts = fine(4) | {2: raised(broken, 100.0), 3: raised("DistNetworkError: Broken pipe", 100.1)}
    (finding,) = judge(facts)
    assert finding.confidence is Confidence.LOW
    assert (finding.ranks, finding.message) == ((2,), f"{broken} (rank 3 failed after it)")


@pytest.mark.parametrize("error", [PEER, "RuntimeError: Timed out waiting 60000ms for recv"])
@pytest.mark.parametrize("world", [1, 2, 8])
def test_a_training_that_broke_off_is_an_error_when_no_culprit_told(world: int, error: str) -> None:
    (finding,) = judge({rank: raised(error, 100.0 + rank) for rank in range(world)})
    assert finding.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("told", "world", "missing"),
    [
        pytest.param((0, 1, 3), 0, (2,), id="a rank between others"),
        pytest.param((1, 2, 3), 4, (0,), id="rank 0"),
        pytest.param((0, 1, 2), 4, (3,), id="the last rank"),
        pytest.param((0,), 8, (1, 2, 3, 4, 5, 6, 7), id="all but one"),
    ],
)
def test_survivors_of_a_rank_that_told_nothing_are_not_blamed_for_it(
    told: tuple[int, ...], world: int, missing: tuple[int, ...]
) -> None:
    facts = {
        rank: msgspec.structs.replace(raised(PEER, 100.0 + rank), world_size=world) for rank in told
    }
    (finding,) = judge(facts)
    assert (finding.ranks, finding.confidence) == (missing, Confidence.LOW)
    # The rank that told nothing is lost: the verdict says so.
    assert finding.severity is Severity.INFO


def test_a_culprit_is_blamed_though_another_rank_told_nothing() -> None:
    (finding,) = judge({0: raised(PEER, 99.0), 2: raised(OWN, 100.0)})
    assert (finding.ranks, finding.severity) == ((2,), Severity.ERROR)


def test_summary_counts_the_steps_that_all_came_through() -> None:
    assert summarize(fine(8)) == "4 training steps on every rank"
    assert summarize(fine(8) | {3: raised(step=1)}) == "1 training steps on every rank"


def test_who_came_to_its_end_first_is_named_before_those_that_lost_it() -> None:
    (finding,) = judge({0: Facts(38, ended=True), 1: raised(PEER, step=38)})
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (0,))
    assert finding.title == "rank 0 came to its end while others went on"
    assert "made 38 steps and left" in finding.message


def test_who_ended_is_not_blamed_for_what_another_raised() -> None:
    (finding,) = judge({0: Facts(38, ended=True), 1: raised(OWN, step=38)})
    assert finding.ranks == (1,)
