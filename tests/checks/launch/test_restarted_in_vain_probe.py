"""What a rank remembers of the starts before, in the folder for temporary files."""

import tempfile
from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.launch.restarted_in_vain import Facts, Observer, judge


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def start(number: int, error: Exception, *, most: str = "3", rank: int = 0) -> Facts:
    """Return what the rank tells in a start that ends so."""
    environ = {
        "TORCHELASTIC_RESTART_COUNT": str(number),
        "TORCHELASTIC_MAX_RESTARTS": most,
        "TORCHELASTIC_RUN_ID": "job/7",
    }
    observer = Observer(context_with(watches=True, environ=environ, rank=rank))
    observer.on_raise(0, error)
    return observer.facts()


def test_starts_are_remembered_by_rank() -> None:
    for number in range(2):
        start(number, ImportError("no\nmodule"))
        start(number, ValueError("other"), rank=1)
    facts = start(2, ImportError("no\nmodule"))
    assert [each.error for each in facts.attempts] == ["ImportError: no"] * 3
    assert len(judge({0: facts})) == 1


def test_a_first_start_begins_anew() -> None:
    start(0, ImportError("old"))
    assert [each.error for each in start(0, ImportError("new")).attempts] == ["ImportError: new"]


def test_nothing_is_noted_where_nobody_starts_again(tmp_path: Path) -> None:
    assert start(0, ImportError("no"), most="0").attempts == ()
    assert list(tmp_path.iterdir()) == []


def test_a_link_of_somebody_else_s_is_not_followed(tmp_path: Path) -> None:
    start(0, ImportError("no"))
    (file,) = tmp_path.iterdir()
    file.unlink()
    aim = tmp_path / "aim"
    aim.write_text("precious")
    file.symlink_to(aim)
    start(0, ImportError("no"))
    assert aim.read_text() == "precious"


def test_without_a_script_it_is_a_skip() -> None:
    with pytest.raises(Skip):
        Observer(context_with()).facts()
