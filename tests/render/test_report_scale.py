"""Thousands of ranks: what is merged stays small, and the odd ones among them are named.

Held by counting and by sizes; ``tests/benchmarks/report_scale.py`` measures 4096 ranks in seconds.
"""

import pytest
from many_ranks import LATE, LOST, ODD_HOST, ODD_TORCH, STRAGGLER, VERSIONS, host_of, write_run
from render_samples import sample

from ddpcheck.engine.assembly import assemble
from ddpcheck.render import formats, render
from ddpcheck.report import CheckOutcome, RankOutcome, Report, to_json

RANKS = 64
MOST_BYTES = 5_000_000
ODD_RANKS = tuple(range(8 * ODD_HOST, 8 * ODD_HOST + 8))
PEOPLE_READ = ("text", "markdown", "github", "junit", "sarif")


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Report:
    run_dir = tmp_path_factory.mktemp("scale") / "ddpcheck-20261129-000000-0000"
    write_run(run_dir, RANKS)
    return assemble(run_dir, {})


def test_what_many_ranks_told_is_judged_by_every_check(merged: Report) -> None:
    assert [c.id for c in merged.checks if c.outcome is CheckOutcome.ERROR] == []
    measured = [c.id for c in merged.checks if c.id in merged.facts]
    assert len(measured) > 70
    outcomes = {r.rank: r.outcome for r in merged.ranks if r.outcome is not RankOutcome.OK}
    assert outcomes == {
        **dict.fromkeys(ODD_RANKS, RankOutcome.FAILED),
        LOST: RankOutcome.LOST,
    }


def test_only_the_odd_ones_are_found(merged: Report) -> None:
    found = {each.id: each.ranks for each in merged.findings if each.severity != "info"}
    assert found == {VERSIONS: ODD_RANKS, LATE: (STRAGGLER,), "ranks/lost": (LOST,)}


@pytest.mark.parametrize("format_name", PEOPLE_READ)
def test_every_odd_one_is_named(merged: Report, format_name: str) -> None:
    shown = render(merged, format_name)
    for word in (host_of(ODD_RANKS[0]), ODD_TORCH, f"rank {STRAGGLER}", f"rank {LOST}"):
        assert word in shown


def test_facts_of_the_odd_ones_stay_where_others_give_way(merged: Report) -> None:
    big = "gradients/no-sync-broken"
    assert set(merged.facts_left_out) <= {big, "collectives/low-bandwidth"}
    told = [rank for each in merged.facts[big] for rank in each.ranks]
    assert len(told) + merged.facts_left_out.get(big, 0) == RANKS - 1
    (odd,) = [each for each in merged.facts[VERSIONS] if STRAGGLER - 1 not in each.ranks][-1:]
    assert odd.value


@pytest.mark.parametrize("name", formats())
def test_4096_ranks_fit_every_format(name: str) -> None:
    assert len(render(sample("many_ranks"), name).encode()) < MOST_BYTES


def test_a_report_of_4096_ranks_is_read_in_a_ticket() -> None:
    report = sample("many_ranks")
    assert len(to_json(report)) < MOST_BYTES / 4
    assert len(render(report, "text").splitlines()) < 50
    assert len(render(report, "markdown")) < 5_000
    assert len(render(report, "github").splitlines()) == 4
