import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from ddpcheck import catalogue as module
from ddpcheck.catalogue import catalogue, check_named, select, validated
from ddpcheck.check import Check, Stage
from ddpcheck.errors import CatalogueError, UsageError
from ddpcheck.measures.testimony import Testimony

MANUAL = """The sea is salt.

Why it matters
    It is not for drinking.
What to do
    Bring water.
"""
SOURCE = f'''"""{MANUAL}"""
import msgspec

class Facts(msgspec.Struct, frozen=True):
    salt: float

def probe(ctx):
    return Facts(3.5)

def judge(facts):
    return []
'''
ONE_WAY = "needs either a function probe, a class Observer, or Facts = Testimony"


class Frozen(msgspec.Struct, frozen=True):
    salt: float


class Thawed(msgspec.Struct):
    salt: float


class Plain:
    salt: float


def check_module(name: str = "checks.network.salt_water", **changed: Any) -> ModuleType:
    """Return a sound check; a part that is None in ``changed`` is left out."""
    made = ModuleType(name, changed.pop("doc", MANUAL))
    parts = {"Facts": Frozen, "probe": print, "judge": list, **changed}
    vars(made).update({name: part for name, part in parts.items() if part is not None})
    return made


def inquest_module(name: str = "checks.ranks.drowned", **changed: Any) -> ModuleType:
    """Return a sound check that judges how the ranks came through."""
    return check_module(name, **{"Facts": Testimony, "probe": None, **changed})


def some_checks() -> tuple[Check, ...]:
    names = ("network.slow_link", "network.no_route", "data.same_seed", "data.network")
    return tuple(validated(check_module(f"checks.{name}")) for name in names)


def ids(checks: tuple[Check, ...]) -> list[str]:
    return [check.id for check in checks]


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of the family ``sea`` in an installed plug-in without checks."""
    family = tmp_path / "marine_checks" / "sea"
    family.mkdir(parents=True)
    (family.parent / "__init__.py").touch()
    (family / "__init__.py").touch()
    points = [EntryPoint("marine", "marine_checks", module.ENTRY_POINT_GROUP)]

    def entry_points(*, group: str) -> list[EntryPoint]:
        return [point for point in points if point.group == group]

    monkeypatch.setattr(module, "entry_points", entry_points)
    monkeypatch.syspath_prepend(tmp_path)
    catalogue.cache_clear()
    yield family
    catalogue.cache_clear()
    for name in [name for name in sys.modules if name.startswith("marine_checks")]:
        del sys.modules[name]


def test_order_is_that_of_the_run() -> None:
    checks = catalogue()
    assert ids(checks) == ids(tuple(sorted(checks, key=lambda c: (c.stage.order, c.id))))


@pytest.mark.parametrize(
    ("wanted", "unwanted", "kept"),
    [
        ([], [], ["network/slow-link", "network/no-route", "data/same-seed", "data/network"]),
        (["data/same-seed"], [], ["data/same-seed"]),
        (["network"], [], ["network/slow-link", "network/no-route"]),
        (["*/s*"], [], ["network/slow-link", "data/same-seed"]),
        (["data", "network/no-route"], [], ["network/no-route", "data/same-seed", "data/network"]),
        ([], ["network"], ["data/same-seed", "data/network"]),
        (["data"], ["data/network"], ["data/same-seed"]),
        (["data"], ["*"], []),
    ],
)
def test_select(wanted: list[str], unwanted: list[str], kept: list[str]) -> None:
    assert ids(select(some_checks(), wanted, unwanted)) == kept


@pytest.mark.parametrize(
    ("wanted", "unwanted", "kept"),
    [
        ([], [], ["network/slow-link", "ranks/drowned", "crew/mutiny"]),
        (["network"], [], ["network/slow-link", "ranks/drowned", "crew/mutiny"]),
        (["crew"], [], ["ranks/drowned", "crew/mutiny"]),
        (["network"], ["ranks"], ["network/slow-link", "crew/mutiny"]),
        (["network"], ["ranks/drowned", "crew/*"], ["network/slow-link"]),
        (["ranks"], ["ranks", "crew"], []),
    ],
)
def test_what_became_of_the_ranks_is_selected_unless_it_is_skipped(
    wanted: list[str], unwanted: list[str], kept: list[str]
) -> None:
    checks = (
        validated(check_module("checks.network.slow_link")),
        validated(inquest_module("checks.ranks.drowned")),
        validated(inquest_module("checks.crew.mutiny")),
    )
    assert ids(select(checks, wanted, unwanted)) == kept


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("network/slow-lnk", "did you mean network/slow-link"),
        ("zebra", "'ddpcheck list' shows them all"),
        ("netw", "no check is called 'netw'"),
    ],
)
def test_unknown_id_is_refused_with_a_hint(entry: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        select(some_checks(), [entry], [])
    with pytest.raises(UsageError, match=hint):
        select(some_checks(), [], [entry])


def test_check_named() -> None:
    check = catalogue()[0]
    assert check_named(check.id) is check
    with pytest.raises(UsageError, match=f"did you mean {check.id}"):
        check_named(check.id + "x")


def test_a_sound_module_is_a_check() -> None:
    check = validated(check_module())
    assert (check.id, check.title) == ("network/salt-water", "The sea is salt")
    assert (check.stage, check.is_observer, check.is_inquest) == (Stage.NETWORK, False, False)


@pytest.mark.parametrize(
    "made",
    [
        check_module("checks.data.salt_water"),
        check_module("checks.network.salt_water", probe=None, Observer=object),
    ],
)
def test_other_families_and_observers_run_in_the_rehearsal(made: ModuleType) -> None:
    assert validated(made).stage is Stage.REHEARSAL


@pytest.mark.parametrize("family", ["ranks", "network", "crew"])
def test_what_judges_testimonies_does_so_after_all_stages(family: str) -> None:
    check = validated(inquest_module(f"checks.{family}.drowned"))
    assert (check.stage, check.is_observer, check.is_inquest) == (Stage.RANKS, False, True)
    assert check.stage is max(Stage, key=lambda stage: stage.order)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"Facts": None}, "Facts must be a frozen"),
        ({"Facts": Plain}, "Facts must be a frozen"),
        ({"Facts": Frozen(3.5)}, "Facts must be a frozen"),
        ({"Facts": Thawed}, "Facts must be a frozen"),
        ({"probe": None}, ONE_WAY),
        ({"Observer": object}, ONE_WAY),
        ({"Facts": Testimony}, ONE_WAY),
        ({"Facts": Testimony, "probe": None, "Observer": object}, ONE_WAY),
        ({"Facts": Testimony, "probe": None, "judge": None}, "needs a function judge"),
        ({"judge": None}, "needs a function judge"),
        ({"judge": "guilty"}, "needs a function judge"),
        ({"doc": None}, "the docstring lacks the section 'Why it matters'"),
        ({"doc": "The sea is salt.\n\nWhat to do\n    Swim."}, "lacks the section 'Why it"),
        ({"doc": "The sea is salt.\n\nWhy it matters\n    Salt."}, "lacks the section 'What to do"),
    ],
)
def test_a_broken_module_is_refused_in_one_line(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(CatalogueError, match=f"^network/salt-water: .*{reason}") as raised:
        validated(check_module(**changed))
    assert "\n" not in str(raised.value)


def test_plug_in_is_found_through_its_entry_point(plug_in: Path) -> None:
    (plug_in / "salt_water.py").write_text(SOURCE)
    (plug_in / "deep").mkdir()
    (plug_in / "deep" / "__init__.py").touch()
    (plug_in / "deep" / "not_a_check.py").write_text("raise ImportError")
    assert check_named("sea/salt-water").stage is Stage.REHEARSAL


def test_broken_plug_in_is_named(plug_in: Path) -> None:
    (plug_in / "salt_water.py").write_text(SOURCE.replace("def judge", "def guess"))
    with pytest.raises(CatalogueError, match="sea/salt-water: needs a function judge"):
        catalogue()


def test_two_checks_of_one_id_are_refused(plug_in: Path) -> None:
    (plug_in / "salt_water.py").write_text(SOURCE)
    (plug_in / "salt-water.py").write_text(SOURCE)
    with pytest.raises(CatalogueError, match="two checks have the id sea/salt-water"):
        catalogue()
