"""Which settings file counts, and what is said of one that cannot be read."""

import os
from pathlib import Path

import pytest

from ddpcheck.config.file import SettingsFile, settings_file, working_directory
from ddpcheck.errors import UsageError

OTHERS = "[tool.other]\nprofile = 7\n"


def written(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text)
    return file


def profile(file: SettingsFile) -> object:
    return file.content.get("profile")


def test_no_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert settings_file("", tmp_path) == SettingsFile()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ddpcheck.toml", "profile = 'quick'"),
        ("pyproject.toml", "[tool.ddpcheck]\nprofile = 'quick'"),
    ],
)
def test_the_nearest_folder_upwards_counts(name: str, text: str, tmp_path: Path) -> None:
    written(tmp_path, name, text.replace("quick", "full"))
    written(tmp_path / "a", name, text)
    written(tmp_path / "a/b", "pyproject.toml", OTHERS)  # another tool's: the search goes on
    found = settings_file("", tmp_path / "a/b")
    assert (profile(found), found.shown) == ("quick", str(tmp_path / "a" / name))
    assert profile(settings_file("", tmp_path)) == "full"


def test_the_search_ends_at_the_root_of_the_repository(tmp_path: Path) -> None:
    written(tmp_path, "ddpcheck.toml", "profile = 'full'")
    written(tmp_path / "repository", ".git", "gitdir: elsewhere")
    (tmp_path / "repository/source").mkdir()
    assert settings_file("", tmp_path / "repository/source") == SettingsFile()
    written(tmp_path / "repository", "ddpcheck.toml", "profile = 'quick'")
    assert profile(settings_file("", tmp_path / "repository/source")) == "quick"


def test_of_two_in_one_folder_ddpchecks_own_counts_and_says_so(tmp_path: Path) -> None:
    written(tmp_path, "ddpcheck.toml", "profile = 'quick'")
    shared = written(tmp_path, "pyproject.toml", "[tool.ddpcheck]\nprofile = 'full'")
    found = settings_file("", tmp_path)
    assert (profile(found), found.passed_over) == ("quick", str(shared))
    shared.write_text(OTHERS)
    assert settings_file("", tmp_path).passed_over == ""


def test_a_file_that_is_named_counts_alone(tmp_path: Path) -> None:
    written(tmp_path, "ddpcheck.toml", "profile = 'quick'")
    named = written(tmp_path, "nightly.toml", "profile = 'full'")
    assert profile(settings_file(str(named), tmp_path)) == "full"
    assert settings_file(os.devnull, tmp_path).content == {}


def test_a_strangers_file_where_all_may_write_is_not_read(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    everybodys = tmp_path / "tmp"
    file = written(everybodys, "ddpcheck.toml", "target = 'theirs.py:make'")
    (tmp_path / ".git").mkdir()
    os.chown(file, 4242, 4242)
    assert settings_file("", everybodys).content  # a folder of one's own
    everybodys.chmod(0o1777)
    assert settings_file("", everybodys) == SettingsFile()
    assert settings_file(str(file), everybodys).content  # it was asked for
    os.chown(file, 0, 0)
    assert settings_file("", everybodys).content


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("ddpcheck.toml", b"profile = ", "is not TOML: Invalid value (at end of document)"),
        ("ddpcheck.toml", b"profile = '\xff'", "is not TOML: 'utf-8' codec"),
        ("ddpcheck.toml", b"a = " + b"[" * 5000, "is not TOML"),
        ("pyproject.toml", b"[tool]\nddpcheck = 7", "tool.ddpcheck must be a table"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(
    name: str, text: bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(UsageError) as raised:
        settings_file("", tmp_path)
    assert str(raised.value).startswith(str(tmp_path / name))
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("absent.toml", "absent.toml: No such file or directory"),
        ("folder", "folder: Is a directory"),
        ("pyproject.toml", "pyproject.toml has no table [tool.ddpcheck]"),
        ("a\0b", "is not TOML: embedded null byte"),
    ],
)
def test_a_named_file_must_be_there_and_be_one(name: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    written(tmp_path, "pyproject.toml", OTHERS)
    with pytest.raises(UsageError) as raised:
        settings_file(str(tmp_path / name), tmp_path)
    assert told in str(raised.value)


def test_the_file_is_shown_as_a_user_would_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, "pyproject.toml", "[tool.ddpcheck]")
    monkeypatch.chdir(tmp_path)
    found = settings_file("", working_directory())
    assert found.key("severity", "network/lossy-link") == (
        'pyproject.toml: tool.ddpcheck.severity."network/lossy-link"'
    )
    assert found.key("report-dir") == "pyproject.toml: tool.ddpcheck.report-dir"


def test_a_working_directory_that_is_gone_has_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert working_directory() == Path("/")
    monkeypatch.chdir(tmp_path)
