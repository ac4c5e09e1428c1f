"""What is told of an exception that the user's code led to, deep inside of a library."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from ddpcheck.engine.entries import Crashed, Measured
from ddpcheck.engine.probing import KEPT_FRAMES, crash_of, outcome
from ddpcheck.measures.stack_lines import users_place


class Rate(msgspec.Struct):
    """Facts with what a script has set."""

    rate: Any


@pytest.mark.parametrize(
    "rate", [np.float32(0.5), np.float64(0.5), torch.tensor(0.5), np.array(0.5)], ids=repr
)
def test_numbers_of_other_kinds_are_told_as_pythons(rate: Any) -> None:
    told = outcome("a/b", lambda: Rate({"lr": [rate]}), 0.0)
    assert isinstance(told, Measured)
    assert told.facts == {"rate": {"lr": [0.5]}}


def test_facts_that_no_report_can_hold_are_a_fault_of_their_check() -> None:
    told = outcome("a/b", lambda: Rate(object()), 0.0)
    assert isinstance(told, Crashed)
    assert (told.check, "object, which no report can hold" in told.error) == ("a/b", True)


def nested(depth: int) -> Any:
    """Return lists in lists, and in the innermost what JSON has no words for."""
    return [nested(depth - 1)] if depth else object()


def write(value: Any) -> None:
    json.dumps(value, indent=1)  # the encoder that is written in Python


def rewrite(value: Any) -> None:
    try:
        write(value)
    except TypeError as error:
        raise KeyError("not written") from error


@pytest.mark.parametrize("depth", [1, 3 * KEPT_FRAMES])
def test_the_users_innermost_line_is_kept_however_deep_it_was_raised(depth: int) -> None:
    with pytest.raises(TypeError) as raised:
        write(nested(depth))
    stack = crash_of("watch/script", raised.value).stack
    place = users_place(stack)
    assert place is not None
    assert (place.file, place.function) == (__file__, "write")
    assert stack.count("\n  File ") <= KEPT_FRAMES + 1
    assert "in test_the" not in stack or depth == 1


def test_causes_are_shortened_as_well() -> None:
    with pytest.raises(KeyError) as raised:
        rewrite(nested(3 * KEPT_FRAMES))
    stack = crash_of("watch/script", raised.value).stack
    assert stack.count("\n  File ") <= 2 * (KEPT_FRAMES + 1)
    assert "The above exception was the direct cause" in stack
    assert stack.rstrip().endswith("KeyError: 'not written'")
