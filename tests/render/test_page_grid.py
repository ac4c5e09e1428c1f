"""The heatmap of ranks by stages, and where the verdict comes from."""

import pytest
from page_samples import measured
from render_samples import (
    check,
    check_error,
    failing,
    healthy,
    incomplete,
    ranks,
    report,
    run,
)
from sample_parts import STAGES

from ddpcheck.finding import Finding
from ddpcheck.render import render
from ddpcheck.render.page.cause import cause_of
from ddpcheck.render.page.grid import Grid, grid_of
from ddpcheck.report import LastSeen, RankOutcome, RankRecord, Report


def grid(of: Report) -> Grid:
    return grid_of(of, cause_of(of))


def guilty(of: Report) -> list[tuple[str, str, str]]:
    """Return the marked cells: ranks, stage, text."""
    shown = grid(of)
    return [
        (row.ranks, stage, cell.text)
        for row in shown.rows
        for stage, cell in zip(shown.stages, row.cells, strict=True)
        if cell.is_guilty
    ]


def test_the_cell_of_the_cause_is_marked_and_its_row_is_first() -> None:
    assert guilty(failing()) == [("8-15", "network", "1 error")]
    assert grid(failing()).rows[0].ranks == "8-15"


def test_a_rank_that_stalled_is_guilty_where_it_was_last_seen() -> None:
    assert guilty(incomplete()) == [("1", "collectives", "stalled")]


def test_it_is_so_whatever_stage_names_it() -> None:
    records = ranks(2, 2)
    last = LastSeen("network/x")
    records[1] = RankRecord(rank=1, outcome=RankOutcome.STALLED, reason="silent", last_seen=last)
    found = Finding(title="t", message="m", fix="f", ranks=(1,), id="ranks/stalled")
    checks = [check(each) for each in ("launch/x", "network/x", "devices/x", "ranks/stalled")]
    of = report(run(world_size=2, hosts=()), records, checks, [found])
    assert guilty(of) == [("1", "network", "stalled")]


def test_where_a_rank_is_gone_the_cause_is_what_names_it() -> None:
    def found(check_id: str, rank: int) -> Finding:
        return Finding(title=check_id, message="m", fix="f", ranks=(rank,), id=check_id)

    records = ranks(3, 3)
    last = LastSeen("network/x")
    records[2] = RankRecord(rank=2, outcome=RankOutcome.LOST, reason="gone", last_seen=last)
    findings = [found("environment/x", 0), found("network/x", 2), found("ranks/lost", 2)]
    checks = [check(each.id) for each in findings]
    of = report(run(world_size=3, hosts=()), records, checks, findings)
    assert cause_of(of)[:1] == ("network/x",)
    assert (cause_of(of).anchor, cause_of(of).more) == ("finding-2", "and 2 further findings")
    assert guilty(of) == [("2", "network", "lost")]


def test_a_check_that_raised_is_marked_wherever_it_shows() -> None:
    assert [(stage, text) for _, stage, text in guilty(check_error())] == [
        ("collectives", "unjudged")
    ] * 2


def test_a_pass_has_no_guilty_cell() -> None:
    assert guilty(healthy()) == []
    assert "marks where the verdict comes from" not in render(healthy(), "html")


def test_guilt_is_told_in_words_and_not_by_colour_alone() -> None:
    shown = render(failing(), "html")
    assert shown.count('class="error guilty"') == 1
    assert shown.count('<b class="mark"><span aria-hidden="true">◀</span> cause</b>') == 1


def test_a_guilty_rank_shares_no_row_with_others_that_have_as_many_errors() -> None:
    def found(rank: int) -> Finding:
        return Finding(title="t", message="m", fix="f", ranks=(rank,), id="launch/x")

    findings = [found(0), found(1)]
    of = report(run(world_size=2, hosts=()), ranks(2, 2), [check("launch/x")], findings)
    assert guilty(of) == [("0", "launch", "1 error")]
    assert len(grid(of).rows) == 2


@pytest.mark.parametrize("world_size", [64, 4096])
def test_many_ranks_share_rows_and_the_guilty_one_stands_alone(world_size: int) -> None:
    of = measured(world_size)
    assert guilty(of) == [(str(world_size - 2), "collectives", "1 warning")]
    assert len(grid(of).rows) <= 9


def test_cells_lead_to_what_they_tell_of() -> None:
    row = grid(failing()).rows[0]
    assert [cell.anchor for cell in row.cells if cell.text == "1 error"] == ["finding-1"]
    (stalled,) = [row for row in grid(incomplete()).rows if row.ranks == "1"]
    assert {cell.anchor for cell in stalled.cells} == {"", "gone"}


def test_every_text_of_a_cell_has_a_tone() -> None:
    tones = {cell.text: cell.tone for row in grid(failing()).rows for cell in row.cells}
    assert tones == {
        "ok": "pass",
        "skip": "skip",
        "1 error": "error",
        "1 warning": "warning",
        "failed": "error",
    }
    assert grid(healthy()).stages == [*STAGES, "outcome"]
