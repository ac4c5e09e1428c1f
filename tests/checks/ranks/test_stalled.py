import json
from collections.abc import Sequence

import pytest

from ddpcheck.checks.ranks.stalled import judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import Call, GroupCalls, State, Testimony, between

Ranks = dict[int, Testimony]

CHECK = "collectives/wrong-values"
TRAINING = "rehearsal/training"
REDUCE = "all_reduce SUM float32[1000]"
SHORT = "all_reduce SUM float32[990]"
USERS = '  File "/home/me/train.py", line {line}, in main\n    {code}'
STACK = "  File data.py, line 7, in collate"


def made(count: int, *, done: bool = True) -> tuple[Call, ...]:
    return tuple(Call(each, REDUCE, done=each < count or done) for each in range(1, count + 1))


def waiting(
    *, overran: bool = True, by: str = "", where: str = "all_reduce", what: str = REDUCE
) -> Testimony:
    return Testimony(
        state=State.BUSY,
        check=CHECK,
        overran=overran,
        waits_in=where,
        interrupted_by=by,
        calls=(*made(4), Call(5, what, done=False)),
    )


def elsewhere(*, overran: bool = True, calls: int = 4) -> Testimony:
    return Testimony(
        state=State.BUSY, check=TRAINING, overran=overran, stack=STACK, calls=made(calls)
    )


def mute(state: State, why: str = "") -> Testimony:
    return Testimony(state=state, check=TRAINING, ended_by=why)


def world(size: int, each: Testimony) -> Ranks:
    return dict.fromkeys(range(size), each)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(world(1, Testimony()), id="one rank"),
        pytest.param(world(64, Testimony()), id="64 ranks"),
        pytest.param(world(4, waiting(overran=False, by="SIGTERM")), id="interrupted"),
        pytest.param(
            world(3, elsewhere(overran=False)) | {0: Testimony()}, id="busy when the run ended"
        ),
        pytest.param(
            world(4, waiting()) | {1: Testimony(state=State.GONE, ended_by="SIGKILL", order=1)},
            id="they wait for one that was killed",
        ),
        pytest.param(
            world(4, waiting()) | {1: Testimony(state=State.RAISED, error="ValueError: no")},
            id="they wait for one that raised",
        ),
        pytest.param(
            world(4, waiting()) | {1: waiting(what=SHORT)}, id="they wait for one with other shapes"
        ),
    ],
)
def test_silent(facts: Ranks) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "ranks", "told"),
    [
        pytest.param({0: elsewhere()}, (0,), ["overran its deadline"], id="the only rank"),
        pytest.param(
            world(64, waiting()) | {9: elsewhere()}, (9,), ["overran its deadline"], id="one of 64"
        ),
        pytest.param(
            world(4, waiting(overran=False)) | {3: mute(State.STOPPED)},
            (3,),
            ["stopped by a signal"],
            id="stopped",
        ),
        pytest.param(
            world(4, waiting()) | {0: mute(State.SILENT, "its GIL was held")},
            (0,),
            ["its GIL was held"],
            id="silent",
        ),
        pytest.param(
            world(4, waiting()) | {2: elsewhere(overran=False)},
            (2,),
            ["did not enter all_reduce"],
            id="absent from the call",
        ),
        pytest.param(
            world(4, waiting()) | {2: Testimony(check=CHECK, calls=made(4))},
            (2,),
            ["did not enter all_reduce"],
            id="came through without the call",
        ),
        pytest.param(
            world(8, waiting())
            | {6: mute(State.SILENT, "no sign of life from it"), 1: mute(State.STOPPED)},
            (1, 6),
            ["stopped by a signal", "no sign of life from it"],
            id="two",
        ),
    ],
)
def test_who_kept_the_others_waiting(
    facts: Ranks, ranks: tuple[int, ...], told: Sequence[str]
) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == ranks
    assert finding.title == f"{len(ranks)} of {len(facts)} ranks stalled the run"
    assert finding.fix
    for rank, words in zip(ranks, told, strict=True):
        assert f"rank {rank}" in finding.message
        assert words in finding.message


@pytest.mark.parametrize("size", [2, 8])
def test_of_ranks_that_all_wait_in_one_collective_none_is_the_cause(size: int) -> None:
    (finding,) = judge(world(size, waiting()))
    assert finding.title == "every rank waits in the same collective"
    assert (finding.ranks, finding.confidence) == (tuple(range(size)), Confidence.MEDIUM)
    assert all(f"rank {rank}" in finding.message for rank in range(size))
    assert "network" in finding.fix


def test_two_ranks_in_two_collectives_do_not_wait_in_the_same_one() -> None:
    in_backward = Testimony(
        state=State.BUSY, check=TRAINING, overran=True, waits_in="backward", calls=made(2)
    )
    in_barrier = Testimony(
        state=State.BUSY, check=TRAINING, overran=True, waits_in="barrier", calls=made(2)
    )
    titles = [finding.title for finding in judge({0: in_backward, 1: in_barrier})]
    assert "every rank waits in the same collective" not in titles


def test_one_rank_that_waits_has_nobody_to_wait_for() -> None:
    (finding,) = judge({0: waiting()})
    assert finding.title == "1 of 1 ranks stalled the run"


def test_the_evidence_keeps_the_stack_and_where_each_rank_waits() -> None:
    (finding,) = judge(world(3, waiting()) | {1: elsewhere()})
    assert json.loads(json.dumps(finding.evidence)) == {
        "check": TRAINING,
        "stack": STACK,
        "waits_in": {"0": "all_reduce", "1": "", "2": "all_reduce"},
    }


def test_a_rank_that_waits_for_its_loaders_worker_is_told_how_to_see_into_it() -> None:
    stack = (
        USERS.format(line=7, code="for batch in loader:")
        + '\n  File "/site-packages/torch/utils/data/dataloader.py", line 1464, in _get_data'
    )
    waits = Testimony(state=State.BUSY, check="watch/script", overran=True, stack=stack)
    (finding,) = judge(world(3, waiting()) | {1: waits})
    assert finding.ranks == (1,)
    assert "num_workers=0" in finding.fix


def receiving(rank: int) -> Testimony:
    sent, asked = (Call(1, "a transfer", "pipe.py:9"),), Call(2, "a transfer", "pipe.py:9")
    groups = (
        GroupCalls(between(1 - rank, rank), (1 - rank, rank), (*sent, asked)),
        GroupCalls(between(rank, 1 - rank), (rank, 1 - rank), sent),
    )
    return Testimony(
        state=State.BUSY, check="watch/script", overran=True, waits_in="wait", groups=groups
    )


def test_lists_of_transfers_that_do_not_match_are_told_as_such() -> None:
    (finding,) = judge({0: receiving(0), 1: receiving(1)})
    assert finding.ranks == (0, 1)
    assert "do not send" in finding.title
    assert "batch_isend_irecv" in finding.fix


MEETING = (
    '\n  File "/site-packages/torch/distributed/distributed_c10d.py", line 9, in init_process_group'
)


def stopped(code: str, line: int = 7, inside: str = "") -> Testimony:
    return Testimony(
        state=State.BUSY,
        check="watch/script",
        interrupted_by="SIGINT",
        stack=USERS.format(line=line, code=code) + inside,
    )


def test_who_was_missing_where_the_others_met_is_told_when_the_run_is_stopped() -> None:
    meets = stopped("dist.init_process_group()", inside=MEETING)
    (finding,) = judge({0: meets, 1: stopped("wait_for(lock)", 3), 2: meets})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
    assert finding.title == "rank 0, 2 waited in init_process_group when the run was stopped"
    assert finding.location is not None
    assert finding.location.line == 3


def test_ranks_that_do_not_meet_are_all_named_when_the_run_is_stopped() -> None:
    meets = stopped("dist.init_process_group()", inside=MEETING)
    (finding,) = judge({0: meets, 1: meets})
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert "address" in finding.fix


def test_ranks_that_are_stopped_elsewhere_are_told_of_by_nobody() -> None:
    assert judge({0: stopped("train()"), 1: stopped("train()")}) == []
    ended = Testimony()
    assert judge({0: stopped("train()"), 1: ended}) == []
