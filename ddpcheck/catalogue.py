"""Find, validate, select and order the checks: built-in ones and plug-ins alike.

The entry points of group ``ddpcheck.checks`` each name a package; every module
``family/check.py`` below it is a check with the id ``family/check`` (underscores
become hyphens). The built-in package ``ddpcheck.checks`` is walked the same way.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

import msgspec

from ddpcheck.check import Check, Stage
from ddpcheck.configuration import is_meant
from ddpcheck.errors import CatalogueError, UsageError
from ddpcheck.measures.testimony import Testimony

ENTRY_POINT_GROUP = "ddpcheck.checks"
BUILT_IN = "ddpcheck.checks"


@cache
def catalogue() -> tuple[Check, ...]:
    """Return every check there is, in the order in which they run.

    Raises CatalogueError, naming the plug-in, when one cannot be imported, a module breaks the
    protocol, or two share an id.
    """
    found: dict[str, Check] = {}
    origins: dict[str, str] = {}
    for package, origin in _packages().items():
        for check in _checks_in(package, origin):
            if check.id in found:
                raise CatalogueError(
                    f"two checks have the id {check.id}, of {origins[check.id]} and of {origin}: "
                    "rename one of the modules"
                )
            found[check.id], origins[check.id] = check, origin
    return tuple(sorted(found.values(), key=lambda check: (check.stage.order, check.id)))


def has_plug_ins() -> bool:
    """Return whether other packages bring checks; none is imported for it."""
    return bool(entry_points(group=ENTRY_POINT_GROUP))


def select(
    checks: Sequence[Check], wanted: Iterable[str], unwanted: Iterable[str]
) -> tuple[Check, ...]:
    """Return the checks whose id is in ``wanted`` (empty: all) and not in ``unwanted``.

    Each entry is an id, a family, or a pattern such as ``gradients/*``. Raises
    UsageError for an entry that matches nothing. What became of the ranks is always judged,
    unless it is unwanted.
    """
    kept = {check.id for entry in wanted for check in _matching(checks, entry)}
    dropped = {check.id for entry in unwanted for check in _matching(checks, entry)}
    return tuple(
        c for c in checks if (not kept or c.id in kept or c.is_inquest) and c.id not in dropped
    )


def check_named(check_id: str) -> Check:
    """Return the check with exactly this id; raises UsageError with the nearest ids."""
    for check in catalogue():
        if check.id == check_id:
            return check
    raise UsageError(unknown(check_id, catalogue()))


def validated(module: ModuleType) -> Check:
    """Return the check that ``module`` is; raises CatalogueError saying what is missing."""
    family, name = module.__name__.split(".")[-2:]
    check_id = f"{family}/{name}".replace("_", "-")
    facts_type = getattr(module, "Facts", None)
    if not (inspect.isclass(facts_type) and issubclass(facts_type, msgspec.Struct)):
        raise CatalogueError(f"{check_id}: Facts must be a frozen msgspec.Struct")
    if not facts_type.__struct_config__.frozen:
        raise CatalogueError(f"{check_id}: Facts must be a frozen msgspec.Struct")
    ways = [facts_type is Testimony, hasattr(module, "probe"), hasattr(module, "Observer")]
    if ways.count(True) != 1:
        raise CatalogueError(
            f"{check_id}: needs either a function probe, a class Observer, or Facts = Testimony"
        )
    if not callable(getattr(module, "judge", None)):
        raise CatalogueError(f"{check_id}: needs a function judge")
    manual = inspect.getdoc(module) or ""
    for section in ("Why it matters", "What to do"):
        if section not in manual:
            raise CatalogueError(f"{check_id}: the docstring lacks the section '{section}'")
    title = manual.splitlines()[0].rstrip(".")
    return Check(check_id, _stage_of(family, module), title, manual, facts_type, module)


def _stage_of(family: str, module: ModuleType) -> Stage:
    if module.Facts is Testimony:
        return Stage.RANKS
    of_stages = {stage.value for stage in Stage} - {Stage.WATCH, Stage.RANKS}
    own = not hasattr(module, "Observer") and family in of_stages
    return Stage(family) if own else Stage.REHEARSAL


def _packages() -> dict[str, str]:
    """Return where there are checks, by the package's name, and who brought it."""
    brought: dict[str, str] = {BUILT_IN: "ddpcheck"}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        who = f"{point.dist.name} {point.dist.version}" if point.dist else point.name
        brought.setdefault(point.module, f"the plug-in {who}")
    return brought


def _checks_in(package: str, origin: str) -> list[Check]:
    if package == BUILT_IN:
        return [validated(module) for module in _walk(package)]
    try:
        return [validated(module) for module in _walk(package)]
    except CatalogueError as error:
        raise CatalogueError(f"{origin}: {error}; mend it, or uninstall it") from error
    except (Exception, SystemExit) as error:  # whatever its modules do when they are imported
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CatalogueError(
            f"{origin} cannot be imported: {said}; mend it, or uninstall it"
        ) from error


def _walk(package_name: str) -> Iterator[ModuleType]:
    for family in _inside(import_module(package_name)):
        if family.ispkg:
            for found in _inside(import_module(family.name)):
                if not found.ispkg:
                    yield import_module(found.name)


def _inside(package: ModuleType) -> Iterator[pkgutil.ModuleInfo]:
    if not hasattr(package, "__path__"):
        raise CatalogueError(f"{package.__name__} is no package of folders with checks")
    return pkgutil.iter_modules(package.__path__, f"{package.__name__}.")


def _matching(checks: Sequence[Check], entry: str) -> list[Check]:
    found = [check for check in checks if is_meant(entry, check.id)]
    if not found:
        raise UsageError(unknown(entry, checks))
    return found


def unknown(entry: str, checks: Sequence[Check]) -> str:
    """Return that no check is called this, and which ones are nearly."""
    from difflib import get_close_matches

    near = get_close_matches(entry, [check.id for check in checks], n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else "'ddpcheck list' shows them all"
    return f"no check is called '{entry}': {hint}"
