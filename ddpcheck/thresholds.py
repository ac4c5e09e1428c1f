"""A check's constants, and the check with other values of them.

An author has nothing to do: each number ``UPPER_CASE_UNIT = ...`` in a check's own file, or table
of numbers by name, is a threshold. One that is written as
``OFFSET_S: Annotated[float, msgspec.Meta(gt=0)] = 1.0`` says by itself what it takes.

Nothing is changed from afar: a check with other values is a second module, run from the same
source with these numbers in place of the author's. What the source derives from them follows, and
the catalogue's own module stays as it is.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_file_location
from math import isfinite
from types import CodeType, ModuleType
from typing import Annotated, Any, get_origin

import msgspec

from ddpcheck.catalogue import validated
from ddpcheck.check import Check

# How the name of a constant ends that is a quantity.
UNITS = frozenset(
    {
        *("S", "MS", "US", "HZ", "BYTES", "MIB", "GIB", "GBPS", "BITS"),
        *("COUNT", "RATIO", "RELATIVE", "PERCENT", "STEPS", "RANKS"),
        *("DEVIATIONS", "SIGMAS", "SAMPLES", "UNITS", "TIMES", "HOUR"),
    }
)
COUNT = Annotated[int, msgspec.Meta(ge=0)]
QUANTITY = Annotated[float, msgspec.Meta(ge=0)]
WHOLE_PERCENT = 100


def thresholds_of(check: Check) -> dict[str, Any]:
    """Return the values of a check's thresholds by their names, in the order of its source."""
    found = {name: getattr(check.module, name, None) for name in _quantities(check.module)}
    return {name: value for name, value in found.items() if _is_quantity(value)}


def checked(check: Check, name: str, value: object) -> Any:
    """Return ``value`` as the threshold takes it; raises ValueError saying why it does not.

    Of a table of numbers only those are given that change.
    """
    default = thresholds_of(check)[name]
    if isinstance(default, dict):
        given = msgspec.convert(value, dict[str, Any])
        unknown = [key for key in given if key not in default]
        if unknown:
            raise ValueError(f"there is no '{unknown[0]}' in it, only {', '.join(default)}")
        return {key: _converted(name, given.get(key, own), own) for key, own in default.items()}
    return _converted(name, value, default, _annotation(check.module, name))


def with_thresholds(check: Check, values: Mapping[str, Any]) -> Check:
    """Return the check with these values of its constants, and the others its own."""
    if not values:
        return check
    module = check.module
    spec = spec_from_file_location(module.__name__, module.__file__, loader=_Edited(module, values))
    if spec is None or spec.loader is None:
        raise ImportError(f"{check.id} cannot be loaded from {module.__file__}")
    edited = module_from_spec(spec)
    spec.loader.exec_module(edited)
    return validated(edited)


class _Edited(InspectLoader):
    """Runs a module's source with other values in place of some constants."""

    def __init__(self, module: ModuleType, values: Mapping[str, Any]) -> None:
        self._module = module
        self._values = values

    def get_source(self, fullname: str) -> str:
        return _source(self._module) if fullname == self._module.__name__ else ""

    def get_code(self, fullname: str) -> CodeType:
        tree = ast.parse(self.get_source(fullname))
        for name, node in _assignments(tree):
            if name in self._values:
                value = ast.parse(repr(self._values[name]), mode="eval").body
                node.value = ast.copy_location(value, node)
        file = self._module.__file__ or fullname
        return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def _quantities(module: ModuleType) -> list[str]:
    named = (name for name, _ in _assignments(ast.parse(_source(module))))
    return [name for name in named if name.isupper() and _tells_a_quantity(name.split("_"))]


def _tells_a_quantity(words: Sequence[str]) -> bool:
    # GIB_BYTES says how large a unit is: nothing to choose.
    return words[-1] in UNITS and not UNITS.issuperset(words)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            continue
        if isinstance(target, ast.Name):
            yield target.id, node


def _source(module: ModuleType) -> str:
    """Return a module's source, or '' where there is none to read."""
    loader = module.__spec__.loader if module.__spec__ else None
    if isinstance(loader, InspectLoader):
        return loader.get_source(module.__name__) or ""
    # pytest, where ddpcheck is installed as its plug-in, has a loader that cannot tell.
    with suppress(OSError, TypeError):
        return inspect.getsource(module)
    return ""


def _annotation(module: ModuleType, name: str) -> object:
    # Names that only a type checker imports cannot be looked up: then the value's type counts.
    with suppress(NameError):
        return inspect.get_annotations(module, eval_str=True).get(name)
    return None


def _is_quantity(value: object) -> bool:
    if isinstance(value, dict) and value:
        return all(type(key) is str and _is_quantity(own) for key, own in value.items())
    return isinstance(value, int | float) and not isinstance(value, bool)


def _converted(name: str, value: object, default: float, told: object = None) -> int | float:
    kind = COUNT if isinstance(default, int) else QUANTITY
    number: int | float = msgspec.convert(value, told if get_origin(told) is Annotated else kind)
    if not isfinite(number):
        raise ValueError("Expected a finite number")
    if name.endswith("_PERCENT") and number > WHOLE_PERCENT:
        raise ValueError(f"Expected at most {WHOLE_PERCENT}")
    return number
