"""``ddpcheck new``: where it writes, what it refuses, and that what it writes works."""

import subprocess
import sys
from pathlib import Path

import pytest

from ddpcheck.cli import main
from ddpcheck.errors import ExitCode, UsageError
from ddpcheck.new_check import NewCheck, told, write_new_check

ROOT = Path(__file__).parent.parent
ID = "data/too-few-shards"
TEST = Path("tests/checks/data/test_too_few_shards.py")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Return a folder that looks like ddpcheck's repository."""
    (tmp_path / "ddpcheck").mkdir()
    (tmp_path / "checks/data").mkdir(parents=True)
    for folder in ("checks", "checks/data"):
        (tmp_path / folder / "__init__.py").touch()
    return tmp_path


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_in_ddpchecks_own_repository(own: Path) -> None:
    before = files_in(own)
    new = write_new_check(ID, "", own)
    assert new == NewCheck(ID, Path("checks/data/too_few_shards.py"), TEST)
    assert files_in(own) - before == {str(new.source), str(new.test)}
    assert (own / new.source).read_text().startswith('"""Too few shards.\n\nWhy it matters\n')
    assert "from ddpcheck.checks.data.too_few_shards import" in (own / new.test).read_text()
    assert "tests/readme_parts.py" in told(new)


def test_a_new_family_gets_its_package(own: Path) -> None:
    write_new_check("storage/few-inodes", "", own)
    assert (own / "checks/storage/__init__.py").read_text() == (
        '"""Checks of the family storage."""\n'
    )


@pytest.mark.parametrize(
    ("package", "packages", "module"),
    [
        ("our_checks", [], "our_checks"),
        ("src/our_checks", [], "our_checks"),
        ("src/ours/checks", ["src/ours"], "ours.checks"),
    ],
)
def test_in_a_project_of_ones_own(
    package: str, packages: list[str], module: str, tmp_path: Path
) -> None:
    for each in packages:
        (tmp_path / each).mkdir(parents=True)
        (tmp_path / each / "__init__.py").touch()
    new = write_new_check(ID, package, tmp_path)
    assert (new.source, new.test) == (Path(package, "data/too_few_shards.py"), TEST)
    assert f"from {module}.data.too_few_shards import" in (tmp_path / TEST).read_text()
    assert (tmp_path / package / "__init__.py").is_file()
    assert new.entry_point.splitlines() == [
        '[project.entry-points."ddpcheck.checks"]',
        f'{module.partition(".")[0]} = "{module}"',
    ]
    assert new.entry_point in told(new)
    (tmp_path / "pyproject.toml").write_text(new.entry_point)
    assert write_new_check("data/other", package, tmp_path).entry_point == ""


def test_what_it_writes_for_a_project_works_as_it_stands(tmp_path: Path) -> None:
    write_new_check(ID, "our_checks", tmp_path)
    script = (
        "from ddpcheck.catalogue import validated\n"
        "from our_checks.data import too_few_shards\n"
        "print(validated(too_few_shards).title)\n"
    )
    tried = ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEST)]
    for words, said in ((tried, "3 passed"), (["-c", script], "Too few shards")):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert said in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("check_id", "reason"),
    [
        ("shards", "'shards' is no id of a check"),
        ("data/", "is no id"),
        ("/shards", "is no id"),
        ("data/Too-Few", "is no id"),
        ("data/too_few", "is no id"),
        ("data/too--few", "is no id"),
        ("data/-few", "is no id"),
        ("data/2few", "is no id"),
        ("data/few.py", "is no id"),
        ("data/a/b", "is no id"),
        ("../data/few", "is no id"),
        ("data/few\n", "is no id"),
        ("data/é", "is no id"),
        ("data/import", "'import' is a word of Python's own"),
        ("class/few", "'class' is a word of Python's own"),
        ("ranks/few", "the family ranks judges how the ranks came through"),
        ("data/epoch-not-set", "there is a check data/epoch-not-set"),
    ],
)
def test_an_id_that_cannot_be_is_refused(check_id: str, reason: str, own: Path) -> None:
    before = files_in(own)
    with pytest.raises(UsageError, match=reason):
        write_new_check(check_id, "", own)
    assert files_in(own) == before


@pytest.mark.parametrize("package", ["/tmp/ours", "../ours", "our-checks", ".", "a/.."])
def test_a_package_that_cannot_be_is_refused(package: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name a package below this folder"):
        write_new_check(ID, package, tmp_path)
    assert files_in(tmp_path) == set()


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("checks/data/too_few_shards.py", "is there already: nothing was written"),
        (str(TEST), "is there already: nothing was written"),
        ("tests/checks/other/test_too_few_shards.py", "has the name of its test"),
    ],
)
def test_nothing_is_overwritten(file: str, reason: str, own: Path) -> None:
    (own / file).parent.mkdir(parents=True, exist_ok=True)
    (own / file).write_text("mine")
    before = files_in(own)
    with pytest.raises(UsageError, match=reason):
        write_new_check(ID, "", own)
    assert (files_in(own), (own / file).read_text()) == (before, "mine")


def test_a_file_in_place_of_a_folder_is_told(own: Path) -> None:
    (own / "tests").write_text("a file")
    before = files_in(own)
    with pytest.raises(UsageError, match="cannot write "):
        write_new_check("storage/few-inodes", "", own)
    assert files_in(own) == before


def test_elsewhere_the_package_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", ID]) == ExitCode.USAGE
    assert "name the package of your own checks with --package DIR" in capsys.readouterr().err
    assert main(["new", ID, "--package", "our_checks"]) == ExitCode.OK
    out = capsys.readouterr().out
    assert out.startswith(f"wrote our_checks/data/too_few_shards.py and {TEST}\n")
    assert main(["new", ID, "--package", "our_checks"]) == ExitCode.USAGE
