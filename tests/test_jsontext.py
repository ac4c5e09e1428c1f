import json
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddpcheck import jsontext


class Colour(StrEnum):
    RED = "red"


class Numbers(msgspec.Struct, frozen=True):
    one: float
    more: Sequence[float] = ()
    named: Mapping[str, float] = {}
    text: str = ""
    perhaps: float | None = None


def read(text: bytes) -> Any:
    """Return what the text holds, whatever it is."""
    return jsontext.decode(text, cast("type[Any]", Any))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)


@given(plain)
def test_plain_values_come_back(value: Any) -> None:
    text = jsontext.encode(value)
    assert read(text) == value
    assert json.loads(text) == value
    assert json.loads(jsontext.indented(value)) == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_come_back_where_a_number_is_meant(value: float) -> None:
    given_numbers = Numbers(value, [1.0, value], {"a": value}, str(value), value)
    text = jsontext.encode(given_numbers)
    assert str(jsontext.decode(text, Numbers)) == str(given_numbers)
    json.loads(text, parse_constant=_refuse)


def test_they_are_words_where_nothing_says_that_a_number_is_meant() -> None:
    assert read(jsontext.encode({"x": [math.inf]})) == {"x": ["inf"]}


@given(st.text(st.characters()))
def test_any_text_can_be_written_and_read(text: str) -> None:
    shown = text.encode(errors="backslashreplace").decode()
    assert read(jsontext.encode({"x": text, text: 1})) == {"x": shown, shown: 1}


def test_surrogates_are_shown_as_escapes() -> None:
    assert jsontext.encode(["caf\udce9"]) == rb'["caf\\udce9"]'


def test_structs_enums_and_tuples_are_written_as_what_they_hold() -> None:
    value = {"c": Colour.RED, "t": (1, 2), "n": Numbers(1.5)}
    assert read(jsontext.encode(value)) == {
        "c": "red",
        "t": [1, 2],
        "n": {"one": 1.5, "more": [], "named": {}, "text": "", "perhaps": None},
    }


def test_compact_text_is_one_line_and_indented_text_ends_with_one() -> None:
    value = {"a": [1, "two\nlines"], "b": {}}
    assert jsontext.encode(value) == b'{"a":[1,"two\\nlines"],"b":{}}'
    assert jsontext.indented(value) == b'{\n "a": [\n  1,\n  "two\\nlines"\n ],\n "b": {}\n}\n'


@pytest.mark.parametrize(
    "text", [b"", b"{", b"nope", b"NaN", b"[1,]", b'"\xff"', b"\xff\xfe", b"{'a': 1}", b"1 2"]
)
def test_what_is_no_json_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        read(text)


@pytest.mark.parametrize("text", [b'{"one": "much"}', b"{}", b"[]", b'{"one": [1]}'])
def test_what_does_not_fit_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        jsontext.decode(text, Numbers)


def test_what_is_too_deep_is_a_decode_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        read(b"[" * 5000 + b"]" * 5000)


def _refuse(constant: str) -> None:
    raise AssertionError(constant)


def test_lists_of_numbers_take_one_line() -> None:
    value = {
        "ranks": [0, -1, 25000],
        "more": [[0.5, 1e-07], []],
        "text": "[\n 1,\n 2\n]",
        "s": ["1"],
    }
    text = jsontext.indented(value)
    assert b'"ranks": [0,-1,25000],\n' in text
    assert b"[0.5,1e-7]" in text
    assert read(text) == value


@given(plain)
def test_indenting_changes_no_value(value: Any) -> None:
    assert read(jsontext.indented(value)) == read(jsontext.encode(value))
