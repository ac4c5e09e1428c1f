"""Calls on groups of a script's own: which do not pair up, and who waits in vain."""

import pytest

from ddpcheck.measures.inquest import CULPRITS, Kind, inquest, is_deadlock
from ddpcheck.measures.testimony import (
    BY_TORCH,
    MAKING,
    Call,
    GroupCalls,
    State,
    Testimony,
    between,
)
from ddpcheck.measures.waiting import is_in_transfer

SITE = "app/train.py:41"
REDUCE = "all_reduce SUM float32[8]"


def calls(*whats: str, waits: bool = False) -> tuple[Call, ...]:
    """Return calls in order; ``waits``: it is inside the last one."""
    last = len(whats)
    return tuple(
        Call(number, what, SITE, done=number < last or not waits)
        for number, what in enumerate(whats, start=1)
    )


def group(name: str, *ranks: int, made: tuple[Call, ...]) -> GroupCalls:
    return GroupCalls(name, ranks, made, digest=repr([each.what for each in made]))


def rank(
    *groups: GroupCalls,
    world: tuple[Call, ...] = (),
    state: State = State.BUSY,
    where: str = "",
) -> Testimony:
    """Return the word of a rank that waits: in the call that is not done, or ``where``."""
    made = (world, *(each.calls for each in groups))
    waits = next((c.what for own in made for c in own if not c.done), where)
    return Testimony(
        state=state,
        check="watch/script",
        overran=bool(waits),
        waits_in=waits,
        calls=world,
        groups=groups,
    )


def named(told: dict[int, Testimony]) -> dict[int, Kind]:
    return {r: each.kind for r, each in inquest(told).items() if each.kind in CULPRITS}


ROWS = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}


def in_rows(**more: Testimony) -> dict[int, Testimony]:
    """Return four ranks of two rows that have made their calls, and wait at a barrier of all."""
    barrier = calls("barrier", waits=True)
    told = {
        r: rank(group(f"row {row[0]}", *row, made=calls(REDUCE)), world=barrier)
        for r, row in ROWS.items()
    }
    return told | {int(name.strip("r")): each for name, each in more.items()}


def test_who_skips_a_call_of_its_group_and_who_waits_for_it_are_named() -> None:
    """Nobody can say which of the two is right; the other row has nothing to do with it."""
    waiting = rank(group("row 2", 2, 3, made=calls(REDUCE, REDUCE, waits=True)))
    told = in_rows(r2=waiting)
    assert is_deadlock(told)
    assert named(told) == dict.fromkeys((2, 3), Kind.OTHER_CALL)
    rulings = inquest(told)
    assert "which rank 3 has not entered" in rulings[2].reason
    assert SITE in rulings[2].reason
    assert not rulings[2].is_sure


def test_who_has_ended_is_the_one_that_others_wait_for() -> None:
    waiting = rank(group("row 2", 2, 3, made=calls(REDUCE, REDUCE, waits=True)))
    ended = rank(group("row 2", 2, 3, made=calls(REDUCE)), state=State.ENDED)
    assert named(in_rows(r2=waiting, r3=ended)) == {3: Kind.ABSENT_FROM_CALL}


@pytest.mark.parametrize(
    "other", ["all_reduce SUM float32[9]", "all_reduce SUM int32[8]", "barrier"]
)
def test_calls_on_a_group_that_differ_are_told_with_the_group(other: str) -> None:
    told = in_rows(
        r2=rank(group("row 2", 2, 3, made=calls(REDUCE, REDUCE, waits=True))),
        r3=rank(group("row 2", 2, 3, made=calls(REDUCE, other, waits=True))),
    )
    assert named(told) == dict.fromkeys((2, 3), Kind.OTHER_CALL)
    assert "in the group of rank 2-3" in inquest(told)[3].reason


def test_the_odd_one_of_three_is_sure() -> None:
    made = [calls(REDUCE), calls(REDUCE), calls("barrier")]
    told = {r: rank(group("1", 0, 1, 2, made=own)) for r, own in enumerate(made)}
    assert named(told) == {2: Kind.OTHER_CALL}
    assert inquest(told)[2].is_sure


def test_wrong_values_long_ago_are_told_at_the_end() -> None:
    last = calls(*[REDUCE] * 3)
    told = {
        r: rank(GroupCalls("1", (0, 1), last, digest), state=State.ENDED)
        for r, digest in enumerate("ab")
    }
    assert named(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)


def test_a_group_that_one_rank_alone_has_made_is_named() -> None:
    barrier = calls("barrier")
    making = group(MAKING, 0, 1, made=calls("new_group [0, 1]"))
    told = {
        0: rank(making, group("1", 0, 1, made=calls(REDUCE, waits=True)), world=barrier),
        1: rank(world=calls("barrier", REDUCE, waits=True)),
    }
    assert named(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    assert f"it called new_group [0, 1] at {SITE}, which rank 1 has not" in inquest(told)[0].reason


def sent(sender: int, receiver: int, count: int) -> GroupCalls:
    """Return what one side has of the transfers between two ranks."""
    made = calls(*["a transfer"] * count)
    return group(between(sender, receiver), sender, receiver, made=made)


def test_a_receive_without_a_sender_and_where_that_one_is_instead() -> None:
    told = {
        0: rank(sent(0, 1, 2), world=calls(REDUCE, waits=True)),
        1: rank(sent(0, 1, 3), where="wait"),
    }
    assert named(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    asked = f"transfer 3 from rank 0, asked for at {SITE}, which was not sent"
    assert asked in inquest(told)[1].reason


def test_a_send_that_nobody_takes_and_where_that_one_is_instead() -> None:
    told = {
        0: rank(sent(0, 1, 5), world=calls(REDUCE), where="send"),
        1: rank(sent(0, 1, 4), world=calls(REDUCE, REDUCE, waits=True)),
    }
    assert named(told) == dict.fromkeys((0, 1), Kind.OTHER_CALL)
    assert f"sends transfer 5 to rank 1 at {SITE}, which has not asked" in inquest(told)[0].reason
    assert "which rank 0 has not entered" in inquest(told)[1].reason


def test_ranks_that_all_send_are_stalled() -> None:
    told = {
        0: rank(sent(0, 1, 1), where="send"),
        1: rank(sent(1, 0, 1), where="send"),
    }
    assert set(named(told).values()) == {Kind.STALLED}


def test_a_send_to_a_rank_that_is_at_work() -> None:
    told = {0: rank(sent(0, 1, 5), where="send"), 1: rank(sent(0, 1, 4), where="")}
    assert 0 not in named(told)


@pytest.mark.parametrize("where", ["recv", "recv {}<-{}"])
def test_ranks_that_all_receive_are_stalled(where: str) -> None:
    told = {
        0: rank(sent(1, 0, 1), where=where.format(0, 1)),
        1: rank(sent(0, 1, 1), where=where.format(1, 0)),
    }
    assert set(named(told).values()) == {Kind.STALLED}


def test_what_torch_called_for_a_script_is_told_of_one_that_died() -> None:
    """Gloo aborts the process whose peer sends another size; its calls are on file."""
    torchs = f"0{BY_TORCH}"
    died = GroupCalls(torchs, (), calls(REDUCE, "all_gather_into_tensor float32[9]", waits=True))
    told = {
        0: Testimony(state=State.GONE, ended_by="SIGABRT", order=1, groups=(died,)),
        1: rank(group(torchs, 0, 1, made=calls(REDUCE, REDUCE, waits=True))),
    }
    assert set(named(told)) == {0, 1}
    assert "in the group of rank 0-1" in inquest(told)[0].reason


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(in_rows(), id="all in one barrier: it may be slow"),
        pytest.param(
            in_rows(
                r2=rank(group("row 2", 2, 3, made=calls(REDUCE, REDUCE, waits=True))),
                r3=rank(group("row 2", 2, 3, made=calls(REDUCE, REDUCE, waits=True))),
            ),
            id="one row is slow, and the other waits for it",
        ),
        pytest.param(
            {
                0: rank(group("stage 0", 0, 1, made=calls(*[REDUCE] * 5)), where="send"),
                1: rank(group("stage 0", 0, 1, made=calls(*[REDUCE] * 5)), where="send"),
                2: rank(group("stage 1", 2, 3, made=calls(REDUCE)), where="recv"),
                3: rank(group("stage 1", 2, 3, made=calls(REDUCE)), where="recv"),
            },
            id="stages that call differently many",
        ),
        pytest.param(
            {
                0: rank(group("1", 0, 1, made=calls("broadcast float32[3]")), where="send"),
                1: rank(group("1", 0, 1, made=()), where="recv"),
            },
            id="a sender that is ahead",
        ),
        pytest.param(
            {
                0: rank(group("1", 0, 1, made=calls(REDUCE, waits=True))),
                1: rank(group("1", 0, 1, made=()), where="recv"),
            },
            id="a chain to one that waits in what nothing is known of",
        ),
    ],
)
def test_nobody_is_accused(told: dict[int, Testimony]) -> None:
    assert not is_deadlock(told)


def made_by_members(*, waits: bool) -> dict[int, Testimony]:
    """Return three ranks, of which two make a group of their own before one of all."""
    scorers = calls("new_group [0, 1]", "new_group of all ranks", waits=waits)
    member = rank(group(MAKING, 0, 1, 2, made=scorers))
    other = rank(group(MAKING, 0, 1, 2, made=calls("new_group of all ranks", waits=waits)))
    return {0: member, 1: member, 2: other}


def test_a_group_that_its_members_alone_make() -> None:
    told = made_by_members(waits=True)
    assert is_deadlock(told)
    assert named(told) == {2: Kind.OTHER_CALL}
    assert "where rank 0-1 called new_group [0, 1]" in inquest(told)[2].reason


def test_groups_that_are_made_are_nobodys_fault() -> None:
    assert named(made_by_members(waits=False)) == {}


@pytest.mark.parametrize(
    ("waits", "is_one"),
    [("recv", True), ("wait", True), ("send", True), ("wait_tensor", False), ("all_reduce", False)],
)
def test_a_functional_collective_is_no_transfer(waits: str, is_one: bool) -> None:
    assert is_in_transfer(rank(where=waits)) is is_one
