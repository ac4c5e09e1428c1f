"""What of a script's deeds explains that replicas differ."""

from collections.abc import Sequence

import pytest

from ddpcheck.finding import Location
from ddpcheck.measures.deeds import Deed, Kind, cause_of

LINE = Location("train.py", 41, "main")


def deed(kind: Kind, step: int = 0, what: str = "") -> Deed:
    return Deed(kind, step, what, LINE)


BYPASSED = deed(Kind.BYPASSED)
LOADED = deed(Kind.LOADED)


@pytest.mark.parametrize(
    ("deeds", "step", "ranks", "words"),
    [
        ([[BYPASSED], [BYPASSED]], 0, (0, 1), "rank 0-1 ran no forward"),
        (
            [[], [BYPASSED]],
            0,
            (1,),
            "rank 1 ran no forward through the wrapped model at train.py:41",
        ),
        ([[LOADED], []], -1, (0, 1), "rank 0 loaded a state into the model after it was wrapped"),
        ([[LOADED], []], 3, (0, 1), "and rank 1 did not"),
        ([[deed(Kind.FREED, 2, "head.bias")]] * 2, 4, (0, 1), "wrapped: head.bias at train.py:41"),
        ([[deed(Kind.UNSYNCED, 5)]] * 3, 5, (0, 1, 2), "inside of no_sync()"),
        ([[BYPASSED, LOADED], [LOADED]], 0, (0,), "rank 0 ran no forward"),
    ],
)
def test_causes(
    deeds: Sequence[Sequence[Deed]], step: int, ranks: tuple[int, ...], words: str
) -> None:
    cause = cause_of(dict(enumerate(deeds)), step)
    assert cause is not None
    assert (cause.ranks, cause.location) == (ranks, LINE)
    assert words in cause.words
    assert cause.fix


@pytest.mark.parametrize(
    ("deeds", "step"),
    [
        ([[], []], 0),
        ([[LOADED], [LOADED]], 2),
        ([[deed(Kind.LOADED, 3)], []], 2),
        ([[BYPASSED], [BYPASSED]], 1),
        ([[deed(Kind.UNSYNCED, 4)], []], 5),
        ([[BYPASSED], [BYPASSED]], -1),
    ],
)
def test_what_explains_nothing(deeds: Sequence[Sequence[Deed]], step: int) -> None:
    cause = cause_of(dict(enumerate(deeds)), step)
    assert cause is None
