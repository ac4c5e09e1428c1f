"""A new check and its test, from a template: what ``ddpcheck new`` writes runs as it stands."""

from __future__ import annotations

import keyword
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from ddpcheck.catalogue import BUILT_IN, ENTRY_POINT_GROUP, catalogue
from ddpcheck.errors import UsageError

WORD = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
ID = re.compile(rf"({WORD})/({WORD})")
OWN_PACKAGE = "checks"
# It judges how the ranks came through, and measures nothing.
OTHER_KIND = "ranks"


@dataclass(frozen=True)
class NewCheck:
    """What was written: the check and its test, relative to the folder of the project.

    ``entry_point`` is what the project's pyproject.toml lacks, or ''.
    """

    id: str
    source: Path
    test: Path
    entry_point: str = ""


def write_new_check(check_id: str, package: str, project: Path) -> NewCheck:
    """Write the check ``check_id`` into the package of a plug-in, or, if '', into ddpcheck's own.

    Raises UsageError, and writes nothing, where the id is none or is taken, or a file is there.
    """
    family, name = _words_of(check_id)
    place = _package_folder(package, project)
    module = f"{_import_name(place, project)}.{family}.{name}"
    source = place / family / f"{name}.py"
    test = Path("tests", "checks", family, f"test_{name}.py")
    _require_new(check_id, source, test, project)
    values = {"title": name.replace("_", " ").capitalize(), "module": module}
    texts = {
        source: _filled("check.txt", values),
        test: _filled("test.txt", values),
        **_packages_to_make(place, family, project),
    }
    _write({project / file: text for file, text in texts.items()})
    return NewCheck(check_id, source, test, _missing_entry_point(place, project))


def told(new: NewCheck) -> str:
    """Return what was written, and what comes next."""
    lines = [f"wrote {new.source} and {new.test}"]
    if new.entry_point:
        lines += ["add to pyproject.toml, and install the project again:", new.entry_point]
    elif new.source.parts[0] == OWN_PACKAGE:
        lines.append("python tests/readme_parts.py enters it in the README and in docs/checks")
    lines.append(f"next: say in both what you look for; then: pytest {new.test}")
    return "\n".join(lines)


def _words_of(check_id: str) -> tuple[str, str]:
    found = ID.fullmatch(check_id)
    if not found:
        raise UsageError(
            f"'{check_id}' is no id of a check: name the fault as FAMILY/NAME, in small letters, "
            "such as data/too-few-shards"
        )
    family, name = found[1].replace("-", "_"), found[3].replace("-", "_")
    for word in (family, name):
        if keyword.iskeyword(word):
            raise UsageError(f"'{word}' is a word of Python's own: name the fault otherwise")
    if family == OTHER_KIND:
        raise UsageError(
            f"the family {OTHER_KIND} judges how the ranks came through: begin with a copy of "
            "checks/ranks/lost.py"
        )
    return family, name


def _package_folder(package: str, project: Path) -> Path:
    if package:
        place = Path(package)
        if place.is_absolute() or ".." in place.parts or not place.name.isidentifier():
            raise UsageError(f"--package {package}: name a package below this folder")
        return place
    if (project / OWN_PACKAGE / "__init__.py").is_file() and (project / "ddpcheck").is_dir():
        return Path(OWN_PACKAGE)
    raise UsageError(
        "this is not ddpcheck's repository: name the package of your own checks with --package DIR"
    )


def _import_name(place: Path, project: Path) -> str:
    """Return the name that Python knows the package by."""
    if place == Path(OWN_PACKAGE):
        return BUILT_IN
    names = [place.name]
    for parent in place.parents:
        if not parent.name or not (project / parent / "__init__.py").is_file():
            break
        names.insert(0, parent.name)
    return ".".join(names)


def _require_new(check_id: str, source: Path, test: Path, project: Path) -> None:
    for file in (source, test):
        if (project / file).exists():
            raise UsageError(f"{file} is there already: nothing was written")
    # pytest knows a test file by its name alone.
    for twin in (project / "tests").rglob(test.name):
        raise UsageError(
            f"{twin.relative_to(project)} has the name of its test: name the fault otherwise"
        )
    if any(check.id == check_id for check in catalogue()):
        raise UsageError(f"there is a check {check_id}: see 'ddpcheck explain {check_id}'")


def _packages_to_make(place: Path, family: str, project: Path) -> dict[Path, str]:
    texts = {
        place
        / "__init__.py": '"""Checks for ddpcheck: one file a check, one folder a family."""\n',
        place / family / "__init__.py": f'"""Checks of the family {family}."""\n',
    }
    return {file: text for file, text in texts.items() if not (project / file).exists()}


def _filled(template: str, values: Mapping[str, str]) -> str:
    text = files("ddpcheck").joinpath("templates", template).read_text(encoding="utf-8")
    return Template(text).substitute(values)


def _write(texts: Mapping[Path, str]) -> None:
    """Write all files, or none; raises UsageError for one that cannot be written."""
    written: list[Path] = []
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as new:
                written.append(file)
                new.write(text)
    except OSError as error:
        for file in written:
            file.unlink()
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from error


def _missing_entry_point(place: Path, project: Path) -> str:
    """Return the lines by which ddpcheck finds the package, unless they are there."""
    if place == Path(OWN_PACKAGE):
        return ""
    name = _import_name(place, project)
    with suppress(OSError, ValueError, KeyError, AttributeError):
        document = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
        if name in document["project"]["entry-points"][ENTRY_POINT_GROUP].values():
            return ""
    return f'[project.entry-points."{ENTRY_POINT_GROUP}"]\n{name.split(".")[0]} = "{name}"'
