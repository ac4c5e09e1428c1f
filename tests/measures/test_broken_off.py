"""A watched script that breaks off in a collective: who is named, and who is not."""

import pytest
from msgspec.structs import replace

from ddpcheck.measures.inquest import CULPRITS, Kind, inquest
from ddpcheck.measures.testimony import Call, State, Testimony

SCRIPT = "watch/script"
RESET = "RuntimeError: [third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection reset by peer"
TIMED_OUT = (
    "RuntimeError: [third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting "
    "10000ms for recv operation to complete"
)


def raised(error: str, check: str = SCRIPT) -> Testimony:
    return Testimony(state=State.RAISED, check=check, error=error)


def aborted(waits_in: str, check: str = SCRIPT) -> Testimony:
    calls = (Call(1, waits_in, "app/train.py:70", done=False),) if waits_in else ()
    return Testimony(
        state=State.GONE, check=check, ended_by="SIGABRT", waits_in=waits_in, calls=calls, order=1
    )


def culprits(told: dict[int, Testimony]) -> dict[int, Kind]:
    return {r: each.kind for r, each in inquest(told).items() if each.kind in CULPRITS}


def test_parts_of_a_collective_that_do_not_match_are_both_named() -> None:
    told = {0: raised(RESET), 1: aborted("all_reduce SUM float32[]")}
    assert culprits(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    assert "all_reduce SUM float32[]" in inquest(told)[1].reason


def test_who_aborted_outside_of_any_collective_did_it_alone() -> None:
    assert culprits({0: raised(RESET), 1: aborted("")}) == {1: Kind.LOST}


def test_who_was_still_at_work_when_the_others_gave_up() -> None:
    told = {0: Testimony(state=State.BUSY, check=SCRIPT), 1: raised(TIMED_OUT)}
    assert culprits(told) == {0: Kind.STALLED}


def test_who_waits_as_well_when_the_others_give_up_is_not_late() -> None:
    told = {
        0: Testimony(state=State.BUSY, check=SCRIPT, waits_in="barrier"),
        1: raised(TIMED_OUT),
        2: Testimony(state=State.BUSY, check=SCRIPT),
    }
    assert 0 not in culprits(told)
    assert culprits(told)[2] is Kind.STALLED


@pytest.mark.parametrize("error", ["ValueError: Timed out waiting for the licence", RESET])
def test_a_rank_at_work_beside_another_error_is_not_late(error: str) -> None:
    told = {0: Testimony(state=State.BUSY, check=SCRIPT), 1: raised(error)}
    assert 0 not in culprits(told)


def recorded(*numbers: int, last_done: bool) -> tuple[Call, ...]:
    return tuple(
        Call(each, "broadcast float32[8]", done=last_done or each < max(numbers))
        for each in numbers
    )


def test_of_two_one_that_waits_and_one_that_is_through_both_are_named() -> None:
    told = {
        0: Testimony(
            state=State.BUSY,
            check=SCRIPT,
            overran=True,
            waits_in="broadcast float32[8]",
            recorded=recorded(1, 2, last_done=False),
        ),
        1: Testimony(check="data/same-batches", recorded=recorded(1, last_done=True)),
    }
    assert culprits(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    three = told | {2: told[1]}
    assert culprits(three) == {0: Kind.OTHER_CALL}


def asked_to_end(**told: object) -> Testimony:
    """Return what a rank tells that its launcher ends, as another one has gone."""
    own = Testimony(state=State.BUSY, check=SCRIPT, interrupted_by="SIGTERM", backend="gloo")
    return replace(own, **told)


def test_who_is_asked_to_end_before_it_notices_is_named_with_who_aborted() -> None:
    told = {0: aborted("all_reduce SUM float32[3]"), 1: asked_to_end()}
    assert culprits(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    assert "on its way" in inquest(told)[1].reason


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(asked_to_end(backend="nccl"), id="of NCCL"),
        pytest.param(asked_to_end(overran=True), id="late"),
        pytest.param(Testimony(), id="at its end"),
    ],
)
def test_who_aborted_beside_others_may_have_waited_too_long(other: Testimony) -> None:
    told = {0: aborted("all_reduce SUM float32[3]"), 1: other}
    assert all("on its way" not in each.reason for each in inquest(told).values())
