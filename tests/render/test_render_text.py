"""The text format; its golden files are compared in test_golden_files.py."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from render_samples import (
    SAMPLES,
    check,
    crowd,
    failing,
    healthy,
    incomplete,
    ranks,
    report,
    run,
)

from ddpcheck.finding import Finding, Severity
from ddpcheck.render.formats import text
from ddpcheck.render.table import rank_table
from ddpcheck.render.words import rank_list, where
from ddpcheck.report import LastSeen, RankOutcome, RankRecord


@pytest.mark.parametrize("name", SAMPLES)
def test_is_ascii_in_100_columns(name: str) -> None:
    shown = text.render(SAMPLES[name]())
    assert shown.isascii()
    assert max(map(len, shown.splitlines())) <= text.WIDTH
    assert not any(line != line.rstrip() for line in shown.splitlines())


@pytest.mark.parametrize("world_size", range(1, 65))
def test_fits_100_columns_at_any_world_size(world_size: int) -> None:
    lines = text.render(crowd(world_size, findings=6)).splitlines()
    assert max(map(len, lines)) <= text.WIDTH


@settings(deadline=None, max_examples=60)
@given(hostile=st.text(min_size=1, max_size=300), host=st.text(max_size=80))
def test_no_text_from_elsewhere_breaks_the_page(hostile: str, host: str) -> None:
    records = {0: RankRecord(rank=0, host=host, device=hostile, outcome=RankOutcome.LOST)}
    records[1] = RankRecord(rank=1, reason=hostile, last_seen=LastSeen(hostile, hostile))
    finding = Finding(title=hostile, message=hostile, fix=hostile, ranks=(0,), id=hostile)
    checks = [check("launch/fault", outcome="fail", summary=hostile), check(hostile, "network")]
    shown = text.render(report(run(world_size=2, hosts=(host,)), records, checks, [finding]))
    assert shown.isascii()
    assert all(line.isprintable() and len(line) <= text.WIDTH for line in shown.splitlines())


def test_the_last_line_is_the_verdict_and_names_the_file() -> None:
    last = text.render(failing(), "reports/ddpcheck-1/report.json").splitlines()[-1]
    assert last == "verdict: FAIL, 1 error, 1 warning, 3 skipped | reports/ddpcheck-1/report.json"


def test_a_pass_says_what_was_skipped() -> None:
    last = text.render(healthy()).splitlines()[-1]
    assert last == "verdict: PASS, 0 errors, 0 warnings, 2 skipped"


def test_says_that_fewer_ranks_came() -> None:
    assert text.render(incomplete()).startswith("ddpcheck 0.1.0 | 2 of 3 ranks on 1 host | ")


def test_what_is_cut_is_counted() -> None:
    shown = text.render(crowd(1024, findings=text.MOST_FINDINGS + 3))
    assert "... and 3 more findings in report.json" in shown
    assert "more ranks that did not come through" in shown


def test_rows_that_are_cut_are_counted() -> None:
    records = {rank: RankRecord(rank=rank, device=f"kind{rank}") for rank in range(70)}
    checks = [check("launch/fault")]
    shown = text.render(report(run(world_size=70, hosts=()), records, checks))
    assert f"... and {70 - text.MOST_ROWS} more rows in report.json" in shown


def test_64_equal_ranks_are_a_row_a_host() -> None:
    checks = [check("launch/fault")]
    rows = rank_table(report(run(world_size=64, hosts=()), ranks(64, 8), checks)).rows
    assert [row[:3] for row in rows] == [
        [f"{8 * host}-{8 * host + 7}", f"node{host}", "cuda:0-7"] for host in range(8)
    ]


def test_1024_equal_ranks_are_one_row() -> None:
    checks = [check("launch/fault")]
    rows = rank_table(report(run(world_size=1024, hosts=()), ranks(1024, 8), checks)).rows
    assert rows == [["0-1023", "128 hosts", "cuda:0-7", "ok", "ok"]]


def test_two_processes_that_took_the_same_rank_both_show() -> None:
    records = {0: RankRecord(rank=0, host="a"), 1: RankRecord(rank=0, host="b")}
    table = rank_table(report(run(world_size=2, hosts=()), records, [check("launch/fault")]))
    assert [row[:2] for row in table.rows] == [["0", "a"], ["0", "b"]]


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        (("a.lab", "b.lab"), ["a", "b"]),
        (("a.lab", "a.home"), ["a.lab", "a.home"]),
        (("10.0.0.1", "10.0.0.2"), ["10.0.0.1", "10.0.0.2"]),
        (("a.lab", ""), ["a", "-"]),
    ],
)
def test_hosts_lose_their_domain_where_that_is_clear(
    hosts: tuple[str, ...], shown: list[str]
) -> None:
    records = {rank: RankRecord(rank=rank, host=host) for rank, host in enumerate(hosts)}
    table = rank_table(report(run(world_size=2, hosts=hosts), records, [check("launch/fault")]))
    assert [row[1] for row in table.rows] == shown


def test_stalled_ranks_with_the_same_stack_share_it() -> None:
    def stalled(rank: int) -> RankRecord:
        stack = f"Thread 0x{rank:08x} (most recent call first):\n  File 'train.py', line 3 in step"
        last = LastSeen("collectives/fault", stack)
        return RankRecord(rank=rank, outcome=RankOutcome.STALLED, reason="silent", last_seen=last)

    records = {rank: stalled(rank) for rank in range(8)}
    checks = [check("collectives/fault")]
    shown = text.render(report(run(world_size=8, hosts=()), records, checks))
    assert shown.count("train.py") == 1
    assert "stalled  ranks 0-7, last seen in collectives/fault" in shown


def test_a_rank_stuck_between_checks_is_placed_by_its_stage() -> None:
    last = LastSeen("rehearsal/step")
    record = RankRecord(rank=0, outcome=RankOutcome.STALLED, last_seen=last)
    checks = [check("launch/fault"), check("gradients/fault", "rehearsal")]
    table = rank_table(report(run(world_size=1, hosts=()), {0: record}, checks))
    assert table.rows == [["0", "-", "-", "ok", "stalled", "stalled"]]


def test_a_check_that_finds_only_information_is_ok() -> None:
    said = Finding(title="t", message="m", fix="f", ranks=(0,), severity=Severity.INFO)
    finding = structs.replace(said, id="launch/fault")
    checks = [check("launch/fault")]
    table = rank_table(report(run(world_size=1, hosts=()), ranks(1, 1), checks, [finding]))
    assert table.rows[0][3] == "ok"


@pytest.mark.parametrize(
    ("given_ranks", "shown"),
    [
        ((), ""),
        ((3,), "3"),
        ((9, 0, 1, 2, 2), "0-2, 9"),
        (range(0, 64, 2), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ... (32 in all)"),
    ],
)
def test_rank_list(given_ranks: tuple[int, ...], shown: str) -> None:
    assert rank_list(given_ranks) == shown


@pytest.mark.parametrize(
    ("given_ranks", "shown"),
    [
        ((), "the whole run"),
        ((0,), "rank 0 (a)"),
        ((0, 1, 2), "ranks 0-2 (a, b)"),
        (range(5), "ranks 0-4 (4 hosts)"),
        ((9,), "rank 9"),
    ],
)
def test_where(given_ranks: tuple[int, ...], shown: str) -> None:
    assert where(given_ranks, {0: "a", 1: "a", 2: "b", 3: "c", 4: "d"}) == shown
