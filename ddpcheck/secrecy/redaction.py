"""Take secrets out of texts, and out of everything that holds texts.

This is the one place for it: what is written into a file, or told to other ranks, passes through
``redacted``, so that no check can forget it. A secret is known by its name (``names``), by its shape
(``shapes``), or because a variable of this process whose name says so has that very value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast
from urllib.parse import quote

import msgspec

from ddpcheck.secrecy.names import is_secret, may_be_a_number
from ddpcheck.secrecy.shapes import SHAPE

HIDDEN = "***"
T = TypeVar("T")
# Texts that are remembered: at 4096 ranks most are the same. Longer ones would fill memory.
REMEMBERED_COUNT, LONGEST_REMEMBERED = 1 << 14, 512
# Without one of these a text is none that ``SHAPE`` or ``NAMED`` could find: looking is much cheaper.
HINT = re.compile(
    r"(?i:passw|passph|passc|pass[\"' =:]|secret|token|cred|key|auth|cookie|bearer|basic |jwt|pwd|"
    r"\bpw\b|pat\b|sig=|signature|policy=)|://|"
    r"gh[pousr]_|hf_|_pat_|_oat_|api_org_|k_(?:live|test)_|npm_|dop_v1|gsk|lin_api|r8_|sntrys|"
    r"sk-|shpat|rubygems|pat-|ptt-|dt-|rt-|cbt-|soat-|xox|xapp|AKIA|ASIA|A[GN]PA|AIDA|AROA|AIza|ya29|1//0|pypi-|nvapi|"
    r"whsec|SG\.|eyJ|hvs\.|PRIVATE|Id="
)
# The last word of a name, and what follows it up to a value: "token": "x", --api-key=x, Password: x.
NAMED = re.compile(
    r"(?i:passw(?:or)?ds?|passphrase|passcode|pass|pwd?|secrets?|tokens?|credentials?|creds|bearer|"
    r"keys?|auth(?:orization)?|cookie|jwt|pat)(?![A-Za-z0-9_])"
    r"(?P<between>[\"']?(?:[ \t]{0,8}(?:=>|[=:])[ \t]{0,8}|[ \t]{1,8})"
    r"(?i:(?:bearer|basic|token|digest|negotiate)[ \t]+)?)"
)
VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|[^\s\"']+", re.DOTALL)
# As read backwards from its end.
NAME = re.compile(r"[\w.-]{0,120}")
LONGEST_NAME = 120
# What follows a name and is no secret.
PLAIN = re.compile(r"(?:none|null|nil|true|false|yes|no|\*+)?[,;)\]}]*", re.IGNORECASE)
COUNT = re.compile(r"(?:[-+]?\d[\d_]*(?:\.\d+)?|<\|?\w{1,20}\|?>|\[[A-Z]{1,8}\])[,;)\]}]*")
# Words that also stand in sentences, as in "unexpected token: x" and "sent in every pass: use ...":
# there, a short value, or one that is a word itself, is no secret.
OF_SENTENCES = frozenset(
    {
        "token",
        "tokens",
        "secret",
        "secrets",
        "pass",
        "key",
        "keys",
        "auth",
        "cookie",
        "pat",
        "bearer",
    }
)
SHORTEST_WORD = 6
A_WORD = re.compile(r"[A-Za-z]?[a-z]{1,20}(?:['-][a-z]{1,20}){0,3}[.,;:!?)]*")
# A shorter value of a variable may stand in a text by chance.
SHORTEST_KNOWN = 8


def redacted(value: T) -> T:
    """Return the value, of the same type, without what is secret in its texts and names."""
    return cast("T", _Redaction(_known_now()).of(value))


def redacted_text(text: str) -> str:
    """Return the text without its secrets."""
    return _Redaction(_known_now()).text(text)


def redacted_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command, without the values of options whose names say secret."""
    redaction = _Redaction(_known_now())
    return [redaction.word(before, each) for before, each in zip(("", *words), words, strict=False)]


class _Redaction:
    """One pass; ``known`` finds the values of this process's own secret variables."""

    def __init__(self, known: re.Pattern[str] | None) -> None:
        self._known = known

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, int | float):
            return value  # most of what is measured
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self.text(value)
        if isinstance(value, msgspec.Struct):
            return self._struct(value)
        if isinstance(value, Mapping):
            mapping: Mapping[Any, Any] = value
            return self._mapping(mapping)
        if isinstance(value, list | tuple):
            return self._sequence(cast("Sequence[Any]", value))
        return value

    def text(self, text: str) -> str:
        look = _without_secrets if len(text) > LONGEST_REMEMBERED else _remembered
        told = look(text, self._known)
        return text if told == text else told

    def word(self, before: str, word: str) -> str:
        """Return a word of a command or a list, by what stands before it."""
        if before.startswith("-") and "=" not in before and is_secret(before):
            return word if word.startswith("-") else HIDDEN
        name, mark, value = word.partition("=")
        if mark and is_secret(name) and not _is_plain(name, value):
            return f"{name}={HIDDEN}"
        return self.text(word)

    def _struct(self, value: msgspec.Struct) -> msgspec.Struct:
        changed: dict[str, Any] = {}
        for name in value.__struct_fields__:
            before = getattr(value, name)
            after = self._named(name, before)
            if after is not before:
                changed[name] = after
        return msgspec.structs.replace(value, **changed) if changed else value

    def _mapping(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        found: dict[Any, Any] = {}
        same = True
        for key, member in value.items():
            name, after = self.of(key), self._named(key, member)
            same = same and name is key and after is member
            found[unused(name, found)] = after
        return value if same else found

    def _named(self, name: Any, value: Any) -> Any:
        """Return a value by its name, too: what is called a secret is hidden as a whole."""
        is_text = isinstance(value, str) and isinstance(name, str)
        if is_text and is_secret(name) and not _is_plain(name, value):
            return HIDDEN
        return self.of(value)

    def _sequence(self, value: Sequence[Any]) -> Sequence[Any]:
        after: list[Any] = []
        before = ""
        for each in value:
            is_option = isinstance(each, str) and (each.startswith("-") or before.startswith("-"))
            after.append(self.word(before, each) if is_option else self.of(each))
            before = each if isinstance(each, str) else ""
        if all(new is old for new, old in zip(after, value, strict=True)):
            return value
        if isinstance(value, list):
            return after
        return cast("Sequence[Any]", getattr(type(value), "_make", tuple)(after))


def unused(name: Any, taken: Mapping[Any, Any]) -> Any:
    """Return the name, numbered where another one looks the same without its secrets."""
    number, told = 2, name
    while told in taken:
        number, told = number + 1, f"{name} ({number})"
    return told


@lru_cache(REMEMBERED_COUNT)
def _remembered(text: str, known: re.Pattern[str] | None) -> str:
    return _without_secrets(text, known)


def _without_secrets(text: str, known: re.Pattern[str] | None) -> str:
    told = known.sub(HIDDEN, text) if known else text
    if not HINT.search(told):
        return told
    return "".join(_pieces(SHAPE.sub(_shape_hidden, told)))


def _shape_hidden(match: re.Match[str]) -> str:
    """Return what a match is without its secret part."""
    part = next(name for name in ("token", "signature", "bearer") if match[name])
    start, end = (at - match.start() for at in match.span(part))
    return match[0][:start] + HIDDEN + match[0][end:]


def _pieces(text: str) -> Iterator[str]:
    """Yield the text piece by piece, values whose names say secret left out."""
    done = at = 0
    while match := NAMED.search(text, at):
        at = match.end()
        if span := _secret_span(text, match):
            yield text[done : span[0]]
            yield HIDDEN
            done = at = span[1]
    yield text[done:]


def _secret_span(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Return where the value begins and ends, None where it is no secret."""
    name = _name_before(text, match.start("between"))
    is_assigned = any(mark in match["between"] for mark in "=:")
    if not (is_assigned or name.startswith("-")) or not is_secret(name):
        return None
    value = VALUE.match(text, match.end())
    if value is None or (not is_assigned and value[0].startswith("-")):
        return None
    start, end = value.span()
    is_quoted = value[0][0] in "\"'"
    before = match.start("between") - len(name) - 1
    opening = text[before] if before >= 0 else ""
    if is_quoted:
        start, end = start + 1, end - (value[0][-1] == value[0][0] and end - start > 1)
    elif opening in ("'", '"') and opening not in match["between"]:
        # A word in quotes as a whole, as shlex.join writes it: '--password=a b'.
        closing = text.find(opening, start)
        end = closing if closing >= 0 else len(text)
    told = text[start:end]
    in_sentence = name.lower() in OF_SENTENCES and ":" in match["between"] and not is_quoted
    is_word = len(told) < SHORTEST_WORD or A_WORD.fullmatch(told)
    if _is_plain(name, told) or (in_sentence and is_word):
        return None
    return start, end


def _is_plain(name: str, value: str) -> bool:
    """Return whether the value of what is called a secret is none: empty, a switch, or a count."""
    is_count = may_be_a_number(name) and COUNT.fullmatch(value)
    return bool(PLAIN.fullmatch(value) or is_count)


def _name_before(text: str, end: int) -> str:
    backwards = NAME.match(text[max(0, end - LONGEST_NAME) : end][::-1])
    return backwards[0][::-1] if backwards else ""


def _known_now() -> re.Pattern[str] | None:
    """Return what finds the values of this process's own secret variables; None for none."""
    # Names first: decoding every value took more of a stage of collectives than some checks.
    own = (os.environ.get(name, "") for name in os.environ if is_secret(name))
    return _finding(frozenset(value for value in own if _is_telling(value)))


@lru_cache(8)
def _finding(values: frozenset[str]) -> re.Pattern[str] | None:
    # As they stand in what Python shows of a text, and in an address.
    spelled = {each for value in values for each in (value, repr(value)[1:-1], quote(value, ""))}
    ordered = sorted(spelled, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def _is_telling(value: str) -> bool:
    """Return whether a value is one that stands nowhere by chance: long, and no place or number."""
    return (
        len(value) >= SHORTEST_KNOWN
        and not value.startswith(("/", "~", "./"))
        and not value.isdigit()
    )
