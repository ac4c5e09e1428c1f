"""Who keeps whom waiting in a test that does not end, from where its ranks stand."""

from typing import cast

import pytest

from ddpcheck.testing.errands import Stand
from ddpcheck.testing.pool import Rank
from ddpcheck.testing.standing import LOOKS_COUNT, Standing, never_ends, told

STACK = '  File "/home/ada/tests/test_x.py", line {}, in test_x\n    ...'


def stand(call: str, line: int = 7, groups: int = 1) -> Stand:
    return Stand(call, STACK.format(line), groups)


def looks(*stands: Stand) -> list[dict[int, Stand]]:
    return [dict(enumerate(stands))] * LOOKS_COUNT


def busy(call: str, s_per_look: float) -> list[dict[int, Stand]]:
    taken = [n * s_per_look for n in range(LOOKS_COUNT)]
    return [{0: Stand(call, "", 1, busy_s)} for busy_s in taken]


@pytest.mark.parametrize(
    ("seen", "some_have_ended", "never"),
    [
        (looks(stand("all_reduce")), True, True),
        (looks(stand("all_reduce"), stand("barrier")), False, True),
        (looks(stand("all_reduce"), stand("all_reduce")), False, False),  # slow, it may be
        (looks(stand("")), True, False),  # computes
        (looks(stand("all_reduce"), stand("")), True, False),
        (busy("backward", 0.5), True, False),  # without DDP it is a computation
        (busy("backward", 0.003), True, True),
        (busy("barrier", 0.5), True, True),  # as NCCL waits
        (looks(stand("recv")), True, False),  # from one that computes
        (looks(stand("wait")), True, False),
        (looks(stand("all_reduce", groups=2)), True, False),  # of those who are left, perhaps
        ([*looks(stand("all_reduce"))[1:], {0: stand("all_reduce", 8)}], True, False),  # moves
    ],
)
def test_when_ranks_can_never_go_on(
    seen: list[dict[int, Stand]], some_have_ended: bool, never: bool
) -> None:
    assert never_ends(seen, set(seen[-1]), some_have_ended) is never


def test_others_than_those_that_were_looked_at_are_waited_for() -> None:
    assert not never_ends(looks(stand("all_reduce")), {0, 1}, some_have_ended=True)


class Waiting:
    """A rank that answers at once, and always the same."""

    def ask_where(self) -> None: ...

    def where(self) -> Stand:
        return stand("all_reduce")


def test_many_questions_at_once_are_one_look() -> None:
    standing = Standing()
    left = cast(dict[int, Rank], {0: Waiting()})
    assert not any(standing.is_hopeless([1], left) for _ in range(3 * LOOKS_COUNT))


def test_who_has_ended_is_named_before_who_waits() -> None:
    lines = told("test_x", {0: stand("all_reduce"), 2: stand("all_reduce")}, {1: "passed"})
    assert lines.splitlines()[:3] == [
        "test_x does not end:",
        "  rank 1 came to the end of the test and will not enter it",
        "  ranks 0, 2 wait in all_reduce at test_x.py:7",
    ]


def test_who_computes_is_named_before_who_waits() -> None:
    lines = told("test_x", {0: stand("barrier"), 1: stand("", 9)}, {}).splitlines()
    assert lines[1:3] == [
        "  rank 1 is in no collective",
        "  rank 0 waits in barrier at test_x.py:7",
    ]


def test_unlike_collectives() -> None:
    lines = told("test_x", {0: stand("barrier"), 1: stand("all_reduce", 9)}, {}).splitlines()
    assert lines[1:4] == [
        "  the ranks wait in different collectives:",
        "  rank 0 waits in barrier at test_x.py:7",
        "  rank 1 waits in all_reduce at test_x.py:9",
    ]


def test_who_does_not_answer() -> None:
    assert "rank 0 does not answer" in told("test_x", {0: Stand("", "")}, {})
