"""Which part of ddpcheck may know of which, and what must do without torch."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from real_ranks import clean_environment

ROOT = Path(__file__).parent.parent
SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for folder in (
        "ddpcheck/*.py",
        "ddpcheck/[!c]*/**/*.py",
        "ddpcheck/co*/**/*.py",
        "checks/**/*.py",
    )
    for path in sorted(ROOT.glob(folder))
}
# What each part may import of ddpcheck; parts that are not named may import all but the last two.
ALLOWED = {
    "ddpcheck.finding": set[str](),
    "ddpcheck.errors": set[str](),
    "ddpcheck.check": {
        *("ddpcheck.finding", "ddpcheck.measures.testimony", "ddpcheck.measures.mesh"),
        "ddpcheck.measures.rank_process",
    },
    "ddpcheck.jsontext": set[str](),
    "ddpcheck.measures": {"ddpcheck.measures", "ddpcheck.finding"},
    "ddpcheck.configuration": {"ddpcheck.finding"},
    "ddpcheck.collectives": {
        *("ddpcheck.collectives", "ddpcheck.measures", "ddpcheck.check", "ddpcheck.machine"),
    },
    "ddpcheck.change": set[str](),
    "ddpcheck.report": {
        *("ddpcheck.finding", "ddpcheck.errors", "ddpcheck.jsontext", "ddpcheck.change"),
        *("ddpcheck.secrecy", "ddpcheck.configuration"),
    },
    "ddpcheck.secrecy": {"ddpcheck.secrecy"},
    "ddpcheck.anonymity": {"ddpcheck.anonymity", "ddpcheck.report", "ddpcheck.secrecy"},
    "ddpcheck.comparison": {
        *("ddpcheck.comparison", "ddpcheck.change", "ddpcheck.report", "ddpcheck.finding"),
        "ddpcheck.measures",
    },
    "ddpcheck.catalogue": {
        *("ddpcheck.check", "ddpcheck.finding", "ddpcheck.errors", "ddpcheck.configuration"),
        "ddpcheck.measures.testimony",
    },
    "ddpcheck.render": {
        *("ddpcheck.report", "ddpcheck.finding", "ddpcheck.check", "ddpcheck.errors"),
        *("ddpcheck.render", "ddpcheck.__version__", "ddpcheck.measures", "ddpcheck.jsontext"),
        *("ddpcheck.configuration", "ddpcheck.catalogue", "ddpcheck.change"),
    },
    "ddpcheck.machine": {"ddpcheck.machine", "ddpcheck.measures"},
    "ddpcheck.network": {
        *("ddpcheck.network", "ddpcheck.machine", "ddpcheck.measures", "ddpcheck.variables"),
    },
    "ddpcheck.variables": {"ddpcheck.variables", "ddpcheck.measures", "ddpcheck.secrecy"},
    "checks": {
        *("ddpcheck.check", "ddpcheck.finding", "ddpcheck.measures", "ddpcheck.machine"),
        *("ddpcheck.network", "ddpcheck.variables", "ddpcheck.launch.claims"),
    },
}
ALLOWED_IN_FUNCTIONS_OF_CHECKS = {"ddpcheck.target", "ddpcheck.watch", "ddpcheck.collectives"}
TORCHLESS_PACKAGES = tuple(
    f"ddpcheck.{name}"
    for name in (
        *("render", "measures", "machine", "network", "variables"),
        *("change", "comparison", "secrecy", "anonymity", "engine.rejudging", "engine.loading"),
    )
)
TORCHLESS = (
    *("ddpcheck.finding", "ddpcheck.check", "ddpcheck.report", "ddpcheck.catalogue"),
    *("ddpcheck.errors", "ddpcheck.settings", "ddpcheck.cli", "ddpcheck.engine.judging"),
    *("ddpcheck.config.options", "ddpcheck.config.judging", "ddpcheck.thresholds"),
    *sorted(name for name in SOURCES if name.startswith(TORCHLESS_PACKAGES)),
)


def part_of(module: str) -> str:
    """Return the part that a module belongs to: itself, or its top package."""
    names = [name for name in ALLOWED if module == name or module.startswith(f"{name}.")]
    return names[0] if names else ""


def modules(*prefixes: str) -> list[str]:
    return [n for n in SOURCES if any(n == p or n.startswith(f"{p}.") for p in prefixes)]


@pytest.mark.parametrize("module", [name for name in SOURCES if part_of(name)])
def test_a_part_knows_only_the_parts_below_it(module: str) -> None:
    tree = ast.parse(SOURCES[module].read_text())
    part = part_of(module)
    allowed = ALLOWED[part]
    strangers = {name for name in _own_imports(tree.body) if not _is_in(name, allowed)}
    assert strangers == set()
    if part == "checks":
        allowed = allowed | ALLOWED_IN_FUNCTIONS_OF_CHECKS
    assert {name for name in _own_imports(ast.walk(tree)) if not _is_in(name, allowed)} == set()


@pytest.mark.parametrize("module", modules("ddpcheck.engine"))
def test_the_engine_knows_neither_render_nor_cli(module: str) -> None:
    imported = set(_own_imports(ast.walk(ast.parse(SOURCES[module].read_text()))))
    assert {name for name in imported if _is_in(name, {"ddpcheck.render", "ddpcheck.cli"})} == set()


@pytest.mark.parametrize("module", [name for name in SOURCES if name != "ddpcheck.__main__"])
def test_nothing_but_main_knows_the_command_line(module: str) -> None:
    imported = set(_own_imports(ast.walk(ast.parse(SOURCES[module].read_text()))))
    assert not any(_is_in(name, {"ddpcheck.cli", "ddpcheck.__main__"}) for name in imported)


def test_importing_needs_no_torch() -> None:
    source = (
        "import sys\n"
        "from importlib import import_module\n"
        "for name in sys.argv[1:]:\n"
        "    import_module(name)\n"
        "    assert 'torch' not in sys.modules, name + ' imports torch'\n"
    )
    subprocess.run([sys.executable, "-c", source, *TORCHLESS], check=True, cwd=ROOT)


SAMPLE = "reports/samples/gloo-2-ranks"
READING = (
    *(["--help"], ["--version"], ["run", "--help"], ["list"], ["explain", "data/same-batches"]),
    *(["report", SAMPLE], ["report", SAMPLE, "--rejudge", "--anonymize", "--format", "markdown"]),
    *(["diff", SAMPLE, SAMPLE], ["diff", SAMPLE, SAMPLE, "--format", "json"]),
)


def test_commands_that_read_need_no_torch() -> None:
    # In one process: what one of them imports, it imports here.
    assert_without_torch("for words in READING: quietly(words)")


def test_the_parent_of_ranks_needs_no_torch(tmp_path: Path) -> None:
    words = ["run", "--select", "launch", "--report-dir", str(tmp_path / "reports")]
    assert_without_torch(f"assert quietly({words}) == 0")


def assert_without_torch(statement: str) -> None:
    source = (
        "import contextlib, io, sys\n"
        "from ddpcheck.cli import main\n"
        f"READING = {READING!r}\n"
        "def quietly(words):\n"
        "    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "        return main(words)\n"
        f"{statement}\n"
        "assert 'torch' not in sys.modules\n"
    )
    words = [sys.executable, "-c", source]
    subprocess.run(words, check=True, cwd=ROOT, env=clean_environment())


def test_the_catalogue_has_one_import_name() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import checks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "import the catalogue as ddpcheck.checks" in done.stderr


def _own_imports(within: Iterable[ast.AST]) -> Iterator[str]:
    """Yield what these nodes import of ddpcheck at run time."""
    nodes = list(within)
    typing_only = {id(inner) for node in nodes for inner in _type_checking_only(node)}
    for node in nodes:
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.split(".")[0] == "ddpcheck")
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "a relative import"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ddpcheck":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _type_checking_only(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for statement in node.body:
            yield from ast.walk(statement)


def _is_in(name: str, parts: set[str]) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in parts)
