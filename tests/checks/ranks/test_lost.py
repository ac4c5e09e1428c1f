import json
from collections.abc import Sequence

import pytest

from ddpcheck.checks.ranks.lost import judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import Call, State, Testimony

Ranks = dict[int, Testimony]

CHECK = "collectives/wrong-values"
PEER = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.7]:7605"
REDUCE = "all_reduce SUM float32[1000]"
SHORT = "all_reduce SUM float32[990]"


def waiting(what: str = REDUCE, *, overran: bool = False, by: str = "") -> Testimony:
    return Testimony(
        state=State.BUSY,
        check=CHECK,
        overran=overran,
        waits_in="all_reduce",
        interrupted_by=by,
        calls=(Call(1, what, done=False),),
    )


def gone(by: str = "SIGKILL", order: int = 1, stack: str = "") -> Testimony:
    return Testimony(state=State.GONE, check=CHECK, ended_by=by, order=order, stack=stack)


def raised(error: str, order: int = 1) -> Testimony:
    return Testimony(state=State.RAISED, check=CHECK, error=error, order=order)


def world(size: int, each: Testimony) -> Ranks:
    return dict.fromkeys(range(size), each)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(world(1, Testimony()), id="one rank"),
        pytest.param(world(64, Testimony()), id="64 ranks"),
        pytest.param(world(4, waiting(overran=True)), id="all wait in the same collective"),
        pytest.param(world(4, waiting(by="SIGTERM")), id="interrupted"),
        pytest.param(
            world(4, waiting()) | {1: Testimony(state=State.STOPPED, check=CHECK)}, id="stopped"
        ),
        pytest.param(
            {0: gone("SIGABRT", 2), 1: raised("ValueError: no", 1), 2: gone("SIGTERM", 3)},
            id="those that went after one that raised",
        ),
        pytest.param(
            {0: waiting(), 1: waiting(SHORT), 2: waiting(), 3: gone("SIGABRT", 1)},
            id="aborted by another one's shape",
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "told"),
    [
        pytest.param({0: gone()}, (0,), ["was ended by SIGKILL"], id="the only rank"),
        pytest.param(
            world(64, waiting()) | {37: gone()}, (37,), ["was ended by SIGKILL"], id="one of 64"
        ),
        pytest.param(
            {0: raised(PEER, 1), 1: gone(order=3), 2: gone("SIGABRT", 2), 3: waiting()},
            (1,),
            ["was ended by SIGKILL"],
            id="its victims are left out",
        ),
        pytest.param(
            world(8, waiting()) | {6: gone("exit code 3", 2), 2: gone("SIGSEGV", 1)},
            (2, 6),
            ["was ended by SIGSEGV", "left with exit code 3"],
            id="two",
        ),
        pytest.param(
            world(3, waiting()) | {2: gone("")},
            (2,),
            ["ended without a word"],
            id="nobody knows how",
        ),
        pytest.param(
            world(3, Testimony()) | {1: Testimony(state=State.GARBLED, check=CHECK)},
            (1,),
            ["cannot be read"],
            id="garbled",
        ),
    ],
)
def test_the_lost_are_named_and_those_that_went_after_them_are_not(
    facts: Ranks, ranks: tuple[int, ...], told: Sequence[str]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert finding.title == f"{len(ranks)} of {len(facts)} ranks were lost in the run"
    for rank, words in zip(ranks, told, strict=True):
        assert f"rank {rank}" in finding.message
        assert words in finding.message
    assert CHECK in finding.message


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("SIGKILL", "out-of-memory killer"),
        ("SIGSEGV", "stack"),
        ("SIGBUS", "stack"),
        ("SIGABRT", "stack"),
        ("exit code 0", "last lines of output"),
        ("exit code 3", "last lines of output"),
        ("", "last lines of output"),
    ],
)
def test_the_fix_says_where_to_look(by: str, words: str) -> None:
    (finding,) = judge(world(3, waiting()) | {1: gone(by)})
    assert words in finding.fix


def test_the_evidence_keeps_how_each_ended_and_the_stack() -> None:
    facts = world(4, waiting()) | {1: gone("SIGSEGV", 1, "File train.py"), 3: gone(order=2)}
    (finding,) = judge(facts)
    assert json.loads(json.dumps(finding.evidence)) == {
        "check": CHECK,
        "ended_by": {"1": "SIGSEGV", "3": "SIGKILL"},
        "stack": "File train.py",
    }


def test_summary() -> None:
    assert "3 ranks" in summarize(world(3, Testimony()))


def test_a_script_is_called_a_script() -> None:
    gone = Testimony(state=State.GONE, check="watch/script", ended_by="SIGKILL", order=1)
    (finding,) = judge({0: Testimony(), 1: gone})
    assert finding.message == "rank 1 was ended by SIGKILL in the script"
