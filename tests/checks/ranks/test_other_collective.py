import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from ddpcheck.checks.ranks.other_collective import judge
from ddpcheck.finding import Confidence, Location, Severity
from ddpcheck.measures.testimony import ASIDE, CHECKPOINTS, Call, State, Testimony

Ranks = dict[int, Testimony]

CHECK = "collectives/wrong-values"
SITE = "app/train.py:41"
REDUCE = "all_reduce SUM float32[1000]"
GATHER = "all_gather float32[1000]"
SHORT = "all_reduce SUM float32[990]"
BYTES = "all_reduce SUM int8[1000]"
OTHER_SIZE = "RuntimeError: [pair.cc:455] op.preamble.length <= op.nbytes. 4200 vs 4000"


def calls(*whats: str, site: str = SITE) -> tuple[Call, ...]:
    return tuple(
        Call(number, what, site, done=number < len(whats)) for number, what in enumerate(whats, 1)
    )


def waiting(what: str = REDUCE, *, recorded: tuple[Call, ...] = ()) -> Testimony:
    return Testimony(
        state=State.BUSY,
        check=CHECK,
        stack=f"  File train.py, line 41: {what}",
        waits_in=what.split(maxsplit=1)[0],
        calls=calls(REDUCE, what),
        recorded=recorded,
    )


def raised(error: str = OTHER_SIZE) -> Testimony:
    return Testimony(state=State.RAISED, check=CHECK, error=error, calls=calls(REDUCE, REDUCE))


def world(size: int, each: Testimony) -> Ranks:
    return dict.fromkeys(range(size), each)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(world(1, Testimony()), id="one rank"),
        pytest.param(world(64, Testimony()), id="64 ranks"),
        pytest.param(world(64, waiting()), id="all in the same"),
        pytest.param({0: waiting(GATHER)}, id="nobody to differ from"),
        pytest.param(
            {
                0: waiting(),
                1: Testimony(state=State.GONE, ended_by="SIGKILL", order=1, calls=calls(REDUCE)),
                2: waiting(),
            },
            id="killed before the last one",
        ),
        pytest.param(
            {
                0: Testimony(calls=calls(REDUCE, site="app/train.py:41")),
                1: Testimony(calls=calls(REDUCE, site="app/train.py:52")),
            },
            id="the same from another line",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "told", "confidence"),
    [
        pytest.param(
            world(3, waiting()) | {1: waiting(GATHER)},
            {1: (GATHER, REDUCE)},
            Confidence.HIGH,
            id="another op",
        ),
        pytest.param(
            {0: raised(), 1: waiting(), 2: waiting(SHORT)},
            {2: (SHORT, REDUCE)},
            Confidence.HIGH,
            id="another shape, and one that did nothing wrong raised",
        ),
        pytest.param(
            world(64, waiting()) | {0: waiting(BYTES)},
            {0: (BYTES, REDUCE)},
            Confidence.HIGH,
            id="another dtype, on rank 0 of 64",
        ),
        pytest.param(
            world(5, waiting()) | {1: waiting(GATHER), 3: waiting(SHORT)},
            {1: (GATHER, REDUCE), 3: (SHORT, REDUCE)},
            Confidence.HIGH,
            id="two, each in its own way",
        ),
        pytest.param(
            {0: waiting(), 1: waiting(SHORT)},
            {0: (REDUCE, SHORT), 1: (SHORT, REDUCE)},
            Confidence.MEDIUM,
            id="of two, nobody can say which is right",
        ),
        pytest.param(
            {0: waiting(), 1: waiting(SHORT), 2: waiting(), 3: waiting(SHORT)},
            {
                0: (REDUCE, SHORT),
                1: (SHORT, REDUCE),
                2: (REDUCE, SHORT),
                3: (SHORT, REDUCE),
            },
            Confidence.MEDIUM,
            id="two against two",
        ),
    ],
)
def test_whose_call_is_not_what_most_called(
    facts: Ranks, told: dict[int, tuple[str, str]], confidence: Confidence
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, confidence)
    assert finding.ranks == tuple(told)
    if confidence is Confidence.HIGH:
        assert finding.title.startswith(f"{len(told)} of {len(facts)} ranks called another")
    else:
        assert finding.title.startswith(f"ranks 0-{len(told) - 1} called different collectives")
    assert finding.fix
    for rank, (own, others) in told.items():
        assert (
            f"rank {rank} called {own} at {SITE} as its collective number 2, where rank "
        ) in finding.message
        assert f" called {others}" in finding.message


def test_ddps_own_calls_are_told_from_the_recorder() -> None:
    ours = calls(REDUCE, REDUCE, site="")
    theirs = calls(REDUCE, SHORT, site="")
    facts = world(3, waiting(recorded=ours)) | {1: waiting(recorded=theirs)}
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert finding.message == (
        f"rank 1 called {SHORT} as its collective number 2, where rank 0, 2 called {REDUCE}"
    )


@pytest.mark.parametrize("size", [2, 8, 64])
def test_of_two_that_differ_alone_nobody_can_say_which_is_right(size: int) -> None:
    # The others have no recorder: they cannot speak for either.
    facts = world(size, waiting())
    recorded: Sequence[str] = (REDUCE, SHORT)
    for rank, what in enumerate(recorded):
        facts[rank] = waiting(recorded=calls(what, site=""))
    (finding,) = judge(facts)
    assert finding.ranks == (0, 1)
    assert finding.confidence is not Confidence.HIGH


def test_the_evidence_keeps_the_first_ones_stack() -> None:
    (finding,) = judge(world(4, waiting()) | {2: waiting(GATHER)})
    assert json.loads(json.dumps(finding.evidence)) == {
        "check": CHECK,
        "stack": f"  File train.py, line 41: {GATHER}",
    }


def test_of_one_that_waits_for_one_that_has_ended_the_line_is_told() -> None:
    frame = '  File "/home/me/train.py", line 24, in main'
    waits = Testimony(
        state=State.BUSY,
        check="watch/script",
        overran=True,
        stack=frame,
        waits_in=REDUCE,
        sequence=5,
    )
    (finding,) = judge({0: Testimony(sequence=4), 1: waits})
    assert finding.title == "a collective waits for rank 0, whose script is at its end"
    assert (finding.ranks, finding.confidence) == ((0, 1), Confidence.MEDIUM)
    assert finding.location is not None
    assert finding.location.line == 24
    assert f"rank 1 waits in {REDUCE}, which rank 0 did not enter" in finding.message


SAVING = "/home/me/train.py:52 in main"


def training_beside_async_save(*, is_done: bool) -> Ranks:
    """Return two ranks whose calls differ, one of which is in the thread of an async_save."""
    beside = Call(2, f"gather_object {ASIDE}", SAVING, done=is_done)
    ahead = replace(waiting(), calls=(*calls(REDUCE), beside))
    return {0: ahead, 1: waiting(GATHER)}


def test_a_checkpoint_that_is_written_beside_the_training_is_told_at_its_line() -> None:
    (finding,) = judge(training_beside_async_save(is_done=False))
    assert finding.location == Location("/home/me/train.py", 52, "main")
    assert "a group of its own" in finding.fix
    (finding,) = judge(training_beside_async_save(is_done=True))
    assert (finding.location, "same order" in finding.fix) == (None, True)


def test_a_distributed_checkpoint_of_some_ranks_is_told_to_be_of_all() -> None:
    saving = replace(waiting(), calls=(*calls(REDUCE), Call(2, "gather_object", CHECKPOINTS)))
    (finding,) = judge({0: saving, 1: waiting(GATHER)})
    assert "save and load on all ranks" in finding.fix
