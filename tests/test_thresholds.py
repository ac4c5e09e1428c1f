"""A check with other thresholds is another module: nothing else changes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from contexts import ALONE

from ddpcheck.catalogue import catalogue, check_named, validated
from ddpcheck.check import Check
from ddpcheck.thresholds import checked, thresholds_of, with_thresholds

MANUAL = '"""Salt.\n\nWhy it matters\n    Salt.\nWhat to do\n    Water.\n"""\n'
SOURCE = f"""{MANUAL}
from __future__ import annotations
from typing import Annotated
import msgspec
from ddpcheck.finding import Finding

SALT_LIMIT_RATIO = 0.5
WARM_S: Annotated[float, msgspec.Meta(gt=1, le=9)] = 2
DOUBLE_RATIO = SALT_LIMIT_RATIO * 2
BY_SEA_RATIO = {{"north": 0.1, "dead": 3}}
PLAIN_COUNT = KEPT_COUNT = 3
OF_RANKS = {{0: 1.5}}
DONE_COUNT = True
NAME_BYTES = "x"
MIB_BYTES = 2**20
lower_s = 1.0
LATER_S: float

class Inner(msgspec.Struct, frozen=True):
    salt: float

class Facts(msgspec.Struct, frozen=True):
    inner: Inner

def probe(ctx):
    return Facts(Inner(0.4))

def other(ctx: Unknown) -> None: ...

def judge(facts, limit=SALT_LIMIT_RATIO):
    saltiest = max(own.inner.salt for own in facts.values())
    is_double = DOUBLE_RATIO == 2 * limit
    return [] if saltiest < limit and is_double else [
        Finding(title="salt", message=f"limit {{limit}}", fix="water", ranks=tuple(facts))
    ]
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Check]:
    """Return a check of a module that lies in a file."""
    family = tmp_path / "thresholds_sea/water"
    family.mkdir(parents=True)
    (family / "salt.py").write_text(SOURCE)
    for folder in (family, family.parent):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    from importlib import import_module

    yield validated(import_module("thresholds_sea.water.salt"))
    for name in [name for name in sys.modules if name.startswith("thresholds_sea")]:
        del sys.modules[name]


def test_numbers_with_a_unit_are_thresholds(check: Check) -> None:
    assert thresholds_of(check) == {
        "SALT_LIMIT_RATIO": 0.5,
        "WARM_S": 2,
        "DOUBLE_RATIO": 1.0,
        "BY_SEA_RATIO": {"north": 0.1, "dead": 3},
    }


def test_a_loader_that_cannot_tell_the_source_does_not_matter(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of pytest, say, which loads all of ddpcheck where it is installed as a plug-in."""
    assert isinstance(check.module, ModuleType)
    monkeypatch.setattr(check.module.__spec__, "loader", object())
    assert thresholds_of(check)["WARM_S"] == 2
    assert thresholds_of(with_thresholds(check, {"WARM_S": 3}))["WARM_S"] == 3


def test_a_module_without_a_file_has_none() -> None:
    module = ModuleType("checks.sea.salt", MANUAL.strip('"\n'))
    vars(module).update(Facts=check_named("ranks/lost").facts_type, judge=list, SALT_RATIO=1.0)
    assert thresholds_of(validated(module)) == {}


def test_what_the_source_derives_from_it_follows(check: Check) -> None:
    facts = {0: check.probe(ALONE)}
    assert check.judge(facts) == []
    strict = with_thresholds(check, {"SALT_LIMIT_RATIO": 0.25})
    (finding,) = strict.judge({0: strict.probe(ALONE)})
    assert (finding.id, finding.message) == ("water/salt", "limit 0.25")
    assert thresholds_of(strict)["DOUBLE_RATIO"] == 0.5


def test_the_check_itself_stays_as_it_is(check: Check) -> None:
    before = sys.modules[check.module.__name__]
    strict = with_thresholds(check, {"SALT_LIMIT_RATIO": 0.25})
    assert strict.module is not before
    assert sys.modules[check.module.__name__] is before is check.module
    assert thresholds_of(check)["SALT_LIMIT_RATIO"] == 0.5
    assert with_thresholds(check, {}) is check


def test_a_traceback_shows_the_authors_lines(check: Check) -> None:
    changed = with_thresholds(check, {"SALT_LIMIT_RATIO": 0.25})
    assert changed.module.__file__ == check.module.__file__
    assert changed.module.judge.__code__.co_firstlineno == (
        check.module.judge.__code__.co_firstlineno
    )


def test_an_author_may_say_what_a_threshold_takes(check: Check) -> None:
    assert checked(check, "WARM_S", 9) == 9.0
    for refused in (1, 9.5):
        with pytest.raises(ValueError, match="Expected `float`"):
            checked(check, "WARM_S", refused)
    assert checked(check, "SALT_LIMIT_RATIO", 0) == 0.0


def test_every_check_can_be_run_with_every_threshold_changed() -> None:
    changed = 0
    for check in catalogue():
        own = thresholds_of(check)
        other = {
            name: {key: number * 2 for key, number in value.items()}
            if isinstance(value, dict)
            else value * 2 + 1
            for name, value in own.items()
        }
        twin = with_thresholds(check, other)
        assert {name: thresholds_of(twin)[name] for name in own} == other
        assert (twin.id, twin.stage, twin.title) == (check.id, check.stage, check.title)
        changed += len(own)
    assert changed > 50
