"""Where a script saves to: by a path, or a file that it has opened."""

import gzip
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ddpcheck.watch.functions import Functions


@pytest.fixture
def told() -> Iterator[list[Any]]:
    """Yield what is told of, from when the functions are in place until they are put back."""
    heard: list[Any] = []
    functions = Functions(lambda *event: heard.append(event))
    functions.install()
    try:
        yield heard
    finally:
        functions.close()


def saved_to(told: list[Any], file: Any) -> str:
    """Return the path that is told of what is saved there."""
    told.clear()
    torch.save({}, file)
    ((event, path, _, location),) = told
    assert (event, location.file) == ("saved", __file__)
    return str(path)


def test_a_path_is_told_of_where_a_file_was_opened_by_it(told: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    assert saved_to(told, path) == saved_to(told, str(path)) == str(path)
    with path.open("wb") as file:
        assert saved_to(told, file) == str(path)
    with gzip.open(path, "wb") as file:
        assert saved_to(told, file) == str(path)
    with tempfile.NamedTemporaryFile(dir=tmp_path) as own:
        assert saved_to(told, own) == own.name


def test_what_is_no_file_of_a_name_has_no_path(told: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    path.write_text("")
    labelled = io.BytesIO()
    vars_of: Any = SimpleNamespace(write=labelled.write, flush=labelled.flush, name=str(path))
    with gzip.GzipFile(str(path), "wb", fileobj=io.BytesIO()) as archive:
        files = [io.BytesIO(), vars_of, archive]
        assert [saved_to(told, file) for file in files] == ["", "", ""]
    with os.fdopen(os.open(path, os.O_WRONLY), "wb") as file:
        assert saved_to(told, file) == ""
    with tempfile.TemporaryFile() as own, tempfile.SpooledTemporaryFile() as spooled:
        assert saved_to(told, own) == saved_to(told, spooled) == ""
    with path.open("wb") as moved:
        path.rename(tmp_path / "best.pt")
        assert saved_to(told, moved) == ""
