from typing import Any

import msgspec
import pytest

from ddpcheck.checks.data.loader_exhausts_open_files import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.loader import Loader

# Two workers with two batches each: five batches at once, ten files.
LOADER = Loader(2, 2, 1000, 4096, 2)
TORCH = "RuntimeError: received 0 items of ancdata"


def ranks(
    soft: int | None, world: int = 2, *, opened: int = 50, hard: int | None = 524288, **changed: Any
) -> dict[int, Facts]:
    """Return ranks with these limits; ``changed`` are parts of their loader."""
    loader = msgspec.structs.replace(LOADER, **changed)
    return {r: Facts(f"node{r // 8}", soft, hard, opened, loader) for r in range(world)}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(ranks(1024), id="the default"),
        pytest.param(ranks(60), id="it just does"),
        pytest.param(ranks(None, keeps_all=True), id="no limit"),
        pytest.param(ranks(128, epoch_batches=30, keeps_all=True), id="a short epoch kept"),
        pytest.param(ranks(1024, 1000, workers=16, batch_tensors=10), id="16 workers"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(ranks(59), ["59 files", "50 open", "2 worker(s)", "60 files"], id="short"),
        pytest.param(ranks(1024, workers=16, prefetch=4, batch_tensors=16), ["65"], id="workers"),
        pytest.param(ranks(1024, keeps_all=True), ["keeps every", "2050 files"], id="all kept"),
        pytest.param(ranks(1024, epoch_batches=None, keeps_all=True), ["1000 in"], id="endless"),
    ],
)
def test_what_does_not_fit_is_a_warning(facts: dict[int, Facts], words: list[str]) -> None:
    (finding,) = judge(facts)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == tuple(facts)
    assert [word for word in ["rank 0 on node0", *words] if word not in finding.message] == []
    assert "ulimit -n 65536" in finding.fix
    assert "set_sharing_strategy" in finding.fix
    assert ("clone()" in finding.fix) == facts[0].loader.keeps_all


def test_what_torch_ran_out_of_is_an_error_of_its_ranks() -> None:
    facts = ranks(59, 3) | {1: ranks(59, failure=TORCH)[1]}
    error, warning = judge(facts)
    assert (error.severity, error.ranks) == (Severity.ERROR, (1,))
    assert TORCH in error.message
    assert (warning.severity, warning.ranks) == (Severity.WARNING, (0, 2))


def test_a_low_hard_limit_is_raised_elsewhere() -> None:
    (finding,) = judge(ranks(59, hard=59))
    assert "hard limit is 59" in finding.fix
    assert "--ulimit nofile" in finding.fix


def test_only_the_rank_that_is_short_is_named() -> None:
    (finding,) = judge(ranks(1024, 16) | {9: ranks(59, 16)[9]})
    assert finding.ranks == (9,)
    assert "rank 9 on node1" in finding.message


def test_a_thousand_ranks_are_one_finding() -> None:
    (finding,) = judge(ranks(59, 1000))
    assert "1000 rank(s) on node0" in finding.message
    assert len(finding.message) < 400


def test_summary() -> None:
    assert summarize(ranks(1024)) == "60 files open at most, of 1024"
    assert summarize(ranks(None)) == "60 files open at most, of any number"
