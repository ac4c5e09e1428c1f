"""Every check in the catalogue keeps the rules of the house."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ddpcheck.catalogue import BUILT_IN, catalogue
from ddpcheck.check import Check, Stage
from ddpcheck.measures.testimony import Testimony
from ddpcheck.thresholds import UNITS

ROOT = Path(__file__).parent.parent
FILES = sorted(path for path in (ROOT / "checks").rglob("*.py") if path.name != "__init__.py")
CHECKS = [check for check in catalogue() if check.module.__name__.startswith(BUILT_IN)]
INQUESTS = [check for check in CHECKS if check.is_inquest]
FILE_LINES = 150
FUNCTION_LINES = 50
# The engine owns exceptions, output, waiting and the end of the process.
FORBIDDEN_NAMES = {"print", "exit", "quit", "breakpoint", "suppress"}
FORBIDDEN_ATTRIBUTES = {
    ("time", "sleep"),
    ("sys", "exit"),
    ("os", "_exit"),
    ("os", "abort"),
    ("contextlib", "suppress"),
}
FORBIDDEN_MODULES = {"logging", "warnings"}


def test_files_and_catalogue_agree() -> None:
    ids = {f"{path.parent.name}/{path.stem}".replace("_", "-") for path in FILES}
    assert {check.id for check in CHECKS} == ids


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_manual(check: Check) -> None:
    lines = check.manual.splitlines()
    assert lines[0].endswith(".")
    assert lines[1] == ""
    sections = [line for line in lines[1:] if line and not line.startswith(" ")]
    assert sections == ["Why it matters", "What to do"]
    assert all(len(line) <= 100 for line in lines)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_facts_are_frozen_and_documented(check: Check) -> None:
    assert check.facts_type.__struct_config__.frozen
    assert check.facts_type.__doc__


def test_only_the_family_ranks_judges_testimonies_and_does_nothing_else() -> None:
    family = [check.id for check in CHECKS if check.id.startswith("ranks/")]
    assert [check.id for check in INQUESTS] == family != []


@pytest.mark.parametrize("check", INQUESTS, ids=lambda check: check.id)
def test_what_judges_testimonies_measures_nothing(check: Check) -> None:
    assert check.stage is Stage.RANKS
    assert {"probe", "Observer", "Context", "Skip"} & set(vars(check.module)) == set()


@pytest.mark.parametrize("check", INQUESTS, ids=lambda check: check.id)
@pytest.mark.parametrize("world", [1, 2, 8])
def test_ranks_that_came_through_are_no_finding(check: Check, world: int) -> None:
    through = {rank: Testimony() for rank in range(world)}
    assert (check.judge(through), check.recommend(through)) == ([], {})


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_check_has_a_test_of_its_own(check: Check) -> None:
    family, name = check.module.__name__.split(".")[-2:]
    tests = ROOT / "tests" / "checks" / family / f"test_{name}.py"
    assert tests.exists(), f"write {tests.relative_to(ROOT)}"
    names = [each.name for each in _functions(ast.parse(tests.read_text()))]
    assert any(name.startswith("test_") for name in names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_lengths(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES
    for function in _functions(ast.parse(text)):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        assert length <= FUNCTION_LINES, function.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_the_engine_owns_is_left_to_it(path: Path) -> None:
    assert list(_trespasses(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    pass\nfinally:\n    pass",
        "print(1)",
        "import logging",
        "from logging import getLogger",
        "import time\ntime.sleep(1)",
        "from time import sleep",
        "import sys\nsys.exit()",
        "import os\nos._exit(0)",
        "exit()",
        "raise SystemExit",
        "import contextlib\ncontextlib.suppress(OSError)",
    ],
)
def test_trespasses_are_seen(source: str) -> None:
    assert list(_trespasses(ast.parse(source)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_torch_is_imported_inside_functions_only(path: Path) -> None:
    tree = ast.parse(path.read_text())
    places = [*_functions(tree), *_type_checking(tree)]
    inside = {id(node) for place in places for node in ast.walk(place)}
    modules = [
        name
        for node in ast.walk(tree)
        if id(node) not in inside
        for name in _imported(node)
        if name.split(".")[0] == "torch"
    ]
    assert modules == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_numeric_constants_tell_their_unit_or_their_reason(path: Path) -> None:
    lines = path.read_text().splitlines()
    for name, line in _numeric_constants(ast.parse("\n".join(lines))):
        assert name == name.upper(), f"{name}: write constants in capitals"
        told = "#" in lines[line - 1] or _has_comment_above(lines, line - 1)
        assert told or name.split("_")[-1] in UNITS, f"{name}: add a unit, or a comment above"


def test_judging_needs_no_torch() -> None:
    source = (
        "import sys\n"
        "from ddpcheck.catalogue import catalogue\n"
        "assert catalogue()\n"
        "import ddpcheck.engine.judging\n"
        "assert 'torch' not in sys.modules, 'something imports torch'\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd=ROOT)


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _trespasses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try | ast.TryStar):
            yield f"line {node.lineno}: try"
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES | {"SystemExit"}:
            yield f"line {node.lineno}: {node.id}"
        elif isinstance(node, ast.Attribute) and _dotted(node) in FORBIDDEN_ATTRIBUTES:
            yield f"line {node.lineno}: {node.attr}"
        for name in _imported(node):
            module, _, attribute = name.rpartition(".")
            if (module, attribute) in FORBIDDEN_ATTRIBUTES or (
                name.split(".")[0] in FORBIDDEN_MODULES
            ):
                yield f"import of {name}"


def _dotted(node: ast.Attribute) -> tuple[str, str]:
    return (node.value.id if isinstance(node.value, ast.Name) else "", node.attr)


def _type_checking(tree: ast.AST) -> Iterator[ast.If]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield node


def _numeric_constants(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the name and line of each module-level constant that is one number."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets: list[ast.expr] = [node.target]
            value = node.value
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        else:
            continue
        if _is_number(value):
            yield from (
                (target.id, node.lineno) for target in targets if isinstance(target, ast.Name)
            )


def _is_number(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    return number and not isinstance(getattr(value, "value", None), bool)


def _has_comment_above(lines: list[str], index: int) -> bool:
    # One comment may stand over a block of constants.
    while index > 0 and re.match(r"[A-Z_0-9]+( *:[^=]*)? *=", lines[index - 1]):
        index -= 1
    return index > 0 and lines[index - 1].startswith("#")
