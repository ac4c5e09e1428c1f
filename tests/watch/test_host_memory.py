"""Copies of a dataset that fill the memory of a control group, and one that all ranks map."""

from pathlib import Path

import numpy as np
import pytest
from control_groups import group, memory, within
from findings import only
from real_ranks import Ended, watch_behind

from ddpcheck.finding import Severity

SCRIPT = str(Path(__file__).parent / "scripts" / "eager.py")
COPIES = "memory/dataset-on-every-rank"
MIB = 2**20
ROOM_BYTES = 2048 * MIB
# Two of them are more than four fifths of the room; the ranks take some 0.4 GiB besides.
DATA_BYTES = 720 * MIB


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.npy"
    rows = np.lib.format.open_memmap(
        path, mode="w+", dtype=np.float32, shape=(DATA_BYTES // 4096, 1024)
    )
    rows.flush()
    return path


def watched(folder: Path, *words: str) -> Ended:
    with group("memory", memory(ROOM_BYTES)) as limited:
        return watch_behind(within(limited, []), folder / "reports", SCRIPT, *words)


def test_a_copy_for_each_rank_is_told(tmp_path: Path, data: Path) -> None:
    ended = watched(tmp_path, str(data), "read")
    finding = only(ended.report, COPIES)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "720 MiB of the dataset, 1.4 GiB together" in finding.message
    assert "the control group" in finding.message


def test_a_file_that_is_mapped_is_not(tmp_path: Path, data: Path) -> None:
    ended = watched(tmp_path, str(data), "map")
    assert (ended.found(), ended.exit_code) == ({}, 0)
