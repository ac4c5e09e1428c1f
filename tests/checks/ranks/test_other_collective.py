import json
from collections.abc import Sequence

import pytest

from ddpcheck.checks.ranks.other_collective import judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import Call, State, Testimony

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
    assert finding.title == f"{len(told)} of {len(facts)} ranks called another collective"
    assert finding.fix
    for rank, (own, others) in told.items():
        assert (
            f"rank {rank} called {own} at {SITE} as collective 2, where others called {others}"
        ) in finding.message


def test_ddps_own_calls_are_told_from_the_recorder() -> None:
    ours = calls(REDUCE, REDUCE, site="")
    theirs = calls(REDUCE, SHORT, site="")
    facts = world(3, waiting(recorded=ours)) | {1: waiting(recorded=theirs)}
    (finding,) = judge(facts)
    assert finding.ranks == (1,)
    assert finding.message == (
        f"rank 1 called {SHORT} as collective 2, where others called {REDUCE}"
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
