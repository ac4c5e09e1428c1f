"""What a watched script leaves on one host's disk, and looks for on another's."""

from pathlib import Path

import pytest
from hosts import made_hosts, watch_torchrun
from real_ranks import Ended

SCRIPT = Path(__file__).parent / "scripts" / "cached_vocabulary.py"
READS = "with file.open() as opened:"


def watched(tmp_path: Path, *words: str) -> Ended:
    """Watch the script on two hosts whose cache is on disks of their own."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with made_hosts(names=("alpha", "beta")) as hosts:
        for host in hosts:
            host.mount_disk(cache)
        return watch_torchrun(tmp_path / "reports", hosts, SCRIPT, str(cache), *words)


def test_a_file_that_is_on_another_hosts_disk_is_named_with_it(tmp_path: Path) -> None:
    ended = watched(tmp_path)
    (found,) = [each for each in ended.report.findings if each.id == "data/missing-file"]
    assert found.ranks == (1,)
    assert "of beta: it is there on alpha" in found.message
    assert found.location is not None
    line = SCRIPT.read_text().splitlines()[found.location.line - 1]
    assert line.strip() == READS


@pytest.mark.thorough
def test_where_each_host_makes_its_own_nothing_is_told(tmp_path: Path) -> None:
    ended = watched(tmp_path, "each")
    assert (ended.found(), set(ended.exit_codes)) == ({}, {0}), ended.stdout + ended.stderr
