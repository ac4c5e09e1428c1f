"""The injection matrix: a slice of it in every test run, the whole of it by its marker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cells import Cell, all_cells, one_line, try_cell

SLICE = {
    Cell("raise", 2, "ddpcheck", "in-collective"),
    Cell("exit-0", 0, "ddpcheck", "in-rehearsal"),
    Cell("_exit-3", 2, "ddpcheck", "during-init"),
    Cell("sigkill", 0, "ddpcheck", "in-rehearsal"),
    Cell("sigkill", 0, "by-hand", "in-collective"),
    Cell("segfault", 2, "by-hand", "before-init"),
    Cell("sigstop", 0, "by-hand", "in-collective"),
    Cell("spin", 2, "ddpcheck", "in-rehearsal"),
    Cell("hang-gil-held", 0, "ddpcheck", "during-init"),
    Cell("hang-gil-free", 2, "by-hand", "in-collective"),
    Cell("skip", 2, "ddpcheck", "in-rehearsal"),
    Cell("other", 0, "ddpcheck", "in-collective"),
    Cell("dtype", 2, "ddpcheck", "in-collective"),
    Cell("garbage", 2, "ddpcheck", "in-collective"),
    Cell("lost-directory", 0, "ddpcheck", "in-collective"),
    Cell("sigkill", 2, "torchrun", "in-rehearsal"),
}


def cells() -> Iterator[object]:
    for cell in all_cells():
        marks = () if cell in SLICE else (pytest.mark.matrix,)
        yield pytest.param(cell, id=str(cell).replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("cell", cells())
def test_the_culprit_is_named_in_time_and_nobody_else(cell: Cell, tmp_path: Path) -> None:
    seen = try_cell(cell, tmp_path)
    assert not seen.wrong, one_line(cell, seen)


def test_the_slice_is_part_of_the_matrix() -> None:
    assert set(all_cells()) >= SLICE
