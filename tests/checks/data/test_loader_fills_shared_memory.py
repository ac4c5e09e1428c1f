from typing import Any

import msgspec
import pytest

from ddpcheck.checks.data.loader_fills_shared_memory import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.loader import Loader

MIB = 2**20
# Two workers with two batches each: five batches at once, 20 MiB in ten files.
LOADER = Loader(2, 2, 1000, 4 * MIB, 2)
TORCH = "RuntimeError: unable to allocate shared memory(shm) for file </torch_1_2>: No space left"


def ranks(
    free_mib: float, world: int = 2, *, places: str = "a", files: int | None = None, **changed: Any
) -> dict[int, Facts]:
    """Return ranks that are spread over these places; ``changed`` are parts of their loader."""
    loader = msgspec.structs.replace(LOADER, **changed)
    free_bytes = int(free_mib * MIB)
    return {
        r: Facts("node", places[r * len(places) // world], 64 * MIB, free_bytes, files, loader)
        for r in range(world)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(64), id="docker's default is enough"),
        pytest.param(ranks(40), id="it just fits"),
        pytest.param(ranks(20, places="ab"), id="each host has its own"),
        pytest.param(ranks(64, 1000, places="ab", batch_bytes=0, batch_tensors=0), id="no tensors"),
        pytest.param(ranks(8, epoch_batches=1), id="an epoch of one batch"),
        pytest.param(ranks(40, files=48), id="files enough"),
        pytest.param(ranks(400, epoch_batches=50, keeps_all=True), id="all of a short epoch kept"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(ranks(39), ["39 MiB of 64 MiB", "40 MiB", "2 rank(s)"], id="a MiB short"),
        pytest.param(ranks(39, prefetch=1, workers=4), ["4 worker(s)"], id="more workers"),
        pytest.param(ranks(39, files=47), ["47 files (nr_inodes)"], id="both"),
        pytest.param(ranks(64, files=47), ["47 files (nr_inodes)", "48 files"], id="files"),
        pytest.param(ranks(399, epoch_batches=50, keeps_all=True), ["keeps every"], id="kept"),
        pytest.param(ranks(999, epoch_batches=None, keeps_all=True), ["1000 in an"], id="endless"),
    ],
)
def test_what_does_not_fit_is_a_warning(facts: dict[int, Facts], words: list[str]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == tuple(facts)
    assert [word for word in ["node (rank 0-1)", *words] if word not in finding.message] == []
    assert "--shm-size" in finding.fix
    assert "num_workers" in finding.fix


def test_what_torch_could_not_allocate_is_an_error() -> None:
    facts = ranks(8) | {1: ranks(8, failure=TORCH)[1]}
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (0, 1)
    assert TORCH in finding.message
    assert "--shm-size" in finding.fix


def test_workers_that_die_before_the_first_batch() -> None:
    (finding,) = judge(ranks(8, 1, failure=TORCH, batch_bytes=0, batch_tensors=0))
    assert finding.severity is Severity.ERROR
    assert "not even the first batch came" in finding.message


def test_of_two_hosts_of_one_name_the_short_one_is_told_by_its_ranks() -> None:
    facts = ranks(40, 4, places="ab") | {r: ranks(8, 4, places="ab")[r] for r in (2, 3)}
    (finding,) = judge(facts)
    assert finding.ranks == (2, 3)
    assert "node (rank 2-3)" in finding.message


def test_what_the_first_to_look_saw_counts() -> None:
    # The other looked when this one's workers had begun.
    assert judge(ranks(40) | {1: ranks(20)[1]}) == []


def test_a_hundred_hosts_are_one_finding() -> None:
    places = [f"{n}" for n in range(100)]
    facts = {
        r: msgspec.structs.replace(own, host=f"node{r // 8}", place=places[r // 8])
        for r, own in ranks(8, 800).items()
    }
    (finding,) = judge(facts)
    assert len(finding.ranks) == 800
    assert "and 92 more" in finding.message
    assert len(finding.message) < 500


def test_summary() -> None:
    assert summarize(ranks(64)) == "batches take up to 40 MiB of 64 MiB free"
