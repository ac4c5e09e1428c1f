import msgspec
import pytest

from ddpcheck.checks.collectives.no_process_group import Facts, judge, recommend, summarize
from ddpcheck.finding import Confidence, Recommendation, Severity
from ddpcheck.measures.testimony import VICTIM_WORDS

Ranks = dict[int, Facts]

REFUSED = "RuntimeError: connect [127.0.1.1]:31245: Connection refused"
LATE = "RuntimeError: wait timeout after 60000ms"


def joined(world: int, backend: str = "gloo", duration_s: float = 0.25) -> Ranks:
    return {rank: Facts(backend, duration_s, None) for rank in range(world)}


def failing(world: int, *failed: int, error: str = REFUSED, backend: str = "gloo") -> Ranks:
    return joined(world, backend) | {rank: Facts(backend, 60.0, error) for rank in failed}


def without(ranks: Ranks, *gone: int) -> Ranks:
    return {rank: fact for rank, fact in ranks.items() if rank not in gone}


def in_world(ranks: Ranks, world: int) -> Ranks:
    return {r: msgspec.structs.replace(fact, world_size=world) for r, fact in ranks.items()}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(joined(1), id="one rank"),
        pytest.param(joined(2), id="two ranks"),
        pytest.param(joined(8, "nccl"), id="8 ranks on GPUs"),
        pytest.param(joined(2, duration_s=59.9), id="slow is no fault"),
        pytest.param(joined(2, duration_s=float("nan")), id="a clock that tells nothing"),
        pytest.param(without(joined(8), 0, 5), id="ranks that told nothing"),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "title"),
    [
        pytest.param(failing(1, 0), (0,), "1 of 1 ranks", id="the only rank"),
        pytest.param(failing(2, 0), (0,), "1 of 2 ranks", id="rank 0 of two"),
        pytest.param(failing(2, 1), (1,), "1 of 2 ranks", id="rank 1 of two"),
        pytest.param(failing(2, 0, 1), (0, 1), "2 of 2 ranks", id="both ranks"),
        pytest.param(failing(8, 5), (5,), "1 of 8 ranks", id="one of eight"),
        pytest.param(failing(8, 4, 5, 6, 7), (4, 5, 6, 7), "4 of 8 ranks", id="the second host"),
        pytest.param(without(failing(8, 5), 0), (5,), "1 of 8 ranks", id="rank 0 told nothing"),
        pytest.param(
            in_world(without(failing(8, 5), 7), 8), (5,), "1 of 8 ranks", id="rank 7 told nothing"
        ),
        pytest.param(
            dict(reversed(failing(8, 2, 6).items())), (2, 6), "2 of 8 ranks", id="in any order"
        ),
    ],
)
def test_ranks_that_did_not_get_in_are_one_error(
    facts: Ranks, ranks: tuple[int, ...], title: str
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert finding.title == f"{title} could not join the gloo group"
    assert finding.message == f"rank {ranks[0]}: {REFUSED}"
    assert finding.evidence == {"errors": {str(rank): REFUSED for rank in ranks}}


def test_those_that_only_waited_are_left_out_and_stand_in_the_evidence() -> None:
    facts = failing(4, 3) | {1: Facts("gloo", 60.0, LATE)}
    (finding,) = judge(facts)
    assert (finding.ranks, finding.severity) == ((3,), Severity.ERROR)
    assert finding.title == "2 of 4 ranks could not join the gloo group"
    assert finding.message == f"rank 3: {REFUSED}"
    assert finding.evidence == {"errors": {"1": LATE, "3": REFUSED}}


@pytest.mark.parametrize("words", VICTIM_WORDS)
def test_what_says_that_another_rank_did_not_come_is_a_victim(words: str) -> None:
    waited = Facts("gloo", 60.0, f"DistBackendError: {words} (1)")
    assert waited.is_victim
    (finding,) = judge(failing(3, 2) | {0: waited})
    assert finding.ranks == (2,)


@pytest.mark.parametrize("error", [None, REFUSED, "ValueError: no such interface: eth7"])
def test_other_errors_are_nobodys_fault_but_their_own(error: str | None) -> None:
    assert not Facts("gloo", 60.0, error).is_victim


@pytest.mark.parametrize(
    ("told", "world", "silent"),
    [
        pytest.param((1, 2), 3, (0,), id="rank 0"),
        pytest.param((0, 1), 3, (2,), id="the last rank"),
        pytest.param((0, 7), 8, (1, 2, 3, 4, 5, 6), id="all between two"),
        pytest.param((0,), 2, (1,), id="one of two"),
    ],
)
def test_those_that_waited_for_a_rank_that_told_nothing_are_not_blamed(
    told: tuple[int, ...], world: int, silent: tuple[int, ...]
) -> None:
    late = {rank: Facts("gloo", 60.0, LATE, world) for rank in told}
    (finding,) = judge(late)
    # The rank that told nothing is stalled, or lost: another check says so.
    assert (finding.ranks, finding.severity) == (silent, Severity.INFO)
    assert finding.title == f"{len(told)} of {world} ranks could not join the gloo group"


@pytest.mark.parametrize("world", [1, 2, 8])
def test_when_all_told_and_all_waited_nobody_is_left_out(world: int) -> None:
    (finding,) = judge(in_world(failing(world, *range(world), error=LATE), world))
    assert (finding.ranks, finding.severity) == (tuple(range(world)), Severity.ERROR)


@pytest.mark.parametrize(
    ("backend", "word"), [("gloo", "GLOO_SOCKET_IFNAME"), ("nccl", "NCCL_DEBUG=INFO")]
)
def test_the_fix_is_for_the_backend_that_failed(backend: str, word: str) -> None:
    (finding,) = judge(failing(2, 1, backend=backend))
    assert word in finding.fix
    assert f"the {backend} group" in finding.title


def test_summary_tells_how_long_the_slowest_rank_took() -> None:
    facts = joined(8) | {3: Facts("gloo", 2.04, None)}
    assert summarize(facts) == "8 ranks joined one gloo group in 2.0 s"


@pytest.mark.parametrize(
    ("facts", "told"), [(failing(2, 1), "1 of 2 "), (failing(8, *range(8)), "0 of 8 ")]
)
def test_summary_does_not_say_that_all_joined_when_some_did_not(facts: Ranks, told: str) -> None:
    assert summarize(facts).startswith(told)


@pytest.mark.parametrize(("backend", "device"), [("gloo", "cpu"), ("nccl", "cuda")])
@pytest.mark.parametrize("world", [1, 2, 8])
def test_what_worked_is_recommended(backend: str, device: str, world: int) -> None:
    assert recommend(joined(world, backend)) == {
        "backend": Recommendation(backend, f"{world} ranks joined one {backend} group in this run"),
        "device": Recommendation(device, f"the {backend} group works on {device} tensors"),
    }


@pytest.mark.parametrize("facts", [failing(1, 0), failing(2, 1), failing(8, 0), failing(8, 7)])
def test_nothing_is_recommended_when_a_rank_did_not_get_in(facts: Ranks) -> None:
    assert recommend(facts) == {}
