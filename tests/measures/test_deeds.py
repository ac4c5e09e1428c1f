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


def setting(value: str, step: int = 0, name: str = "lr", line: int = 41) -> Deed:
    return Deed(Kind.SET, step, name, Location("train.py", line, "main"), value)


def test_a_setting_that_differs_explains_parameters_from_then_on() -> None:
    deeds = {0: [setting("0.1")], 1: [setting("0.1"), setting("0.05", 15, line=60)]}
    assert cause_of(deeds, 14) is None
    cause = cause_of(deeds, 15)
    assert cause is not None
    assert cause.words == (
        "from step 15 on the optimizer's lr is 0.1 on rank 0, 0.05 on rank 1, set by train.py:60 in main"
    )
    assert (cause.ranks, cause.location) == ((0, 1), Location("train.py", 60, "main"))


def test_the_odd_one_of_several_is_named() -> None:
    cause = cause_of({0: [setting("0.1")], 1: [setting("0.1")], 2: [setting("0.3")]}, 0)
    assert cause is not None
    assert cause.ranks == (2,)


@pytest.mark.parametrize(
    ("deeds", "step", "of_gradients"),
    [
        ([[setting("0.1")], [setting("0.1")]], 3, False),
        ([[setting("0.1")], [setting("0.2")]], 3, True),
        ([[setting("0.1")], [setting("0.2")]], -1, False),
        ([[setting("0.1")], []], 3, False),
        ([[deed(Kind.RESUMED)], [deed(Kind.RESUMED)]], 3, False),
    ],
)
def test_settings_that_explain_nothing(
    deeds: Sequence[Sequence[Deed]], step: int, of_gradients: bool
) -> None:
    assert cause_of(dict(enumerate(deeds)), step, of_gradients=of_gradients) is None


def test_a_state_loaded_into_one_optimizer_explains_parameters() -> None:
    cause = cause_of({0: [deed(Kind.RESUMED)], 1: []}, 2)
    assert cause is not None
    assert "rank 0 loaded a state into the optimizer at train.py:41" in cause.words
    assert cause.ranks == (0, 1)
