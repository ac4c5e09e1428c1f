"""The markdown format; its golden files are compared in test_golden_files.py."""

import re

import pytest
from render_samples import SAMPLES, check, crowd, hostile, ranks, report, run

from ddpcheck.finding import Finding
from ddpcheck.render.formats import markdown
from ddpcheck.report import Report

LIMIT = 60_000


@pytest.mark.parametrize("name", SAMPLES)
def test_the_verdict_comes_first(name: str) -> None:
    assert markdown.render(SAMPLES[name]()).startswith("**verdict: ")


def test_1024_ranks_with_500_findings_fit_an_issue() -> None:
    shown = markdown.render(crowd(1024, findings=500))
    assert len(shown) < LIMIT
    assert "more findings in report.json" in shown
    assert shown.count("<details>") == shown.count("</details>")


def test_texts_that_grow_when_escaped_fit_an_issue() -> None:
    evil = "@`<|" * 5000
    finding = Finding(title=evil, message=evil, fix=evil, ranks=(0,), id=evil)
    checks = [check(evil, "launch", "error", reason=evil, summary=evil)] * 200
    of_run = run(world_size=1, hosts=(evil,), command=evil)
    assert len(markdown.render(report(of_run, ranks(1, 1), checks, [finding] * 99))) < LIMIT


def test_hostile_values_stay_text() -> None:
    shown = re.sub(
        r"^(`{3,})text\n.*?^\1$", "", markdown.render(hostile()), flags=re.MULTILINE | re.DOTALL
    )
    shown = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", shown.replace("\\`", ""))
    tags = set(re.findall(r"<[^>]*>", shown))
    assert tags == {"<br>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}
    assert "@octocat" not in shown


def test_every_table_row_has_as_many_cells_as_its_header() -> None:
    def cells(row: str) -> int:
        return len(re.findall(r"(?<!\\)\|", row))

    tables = re.findall(r"(?:^\|.*\n)+", markdown.render(hostile()), flags=re.MULTILINE)
    assert len(tables) == 2
    for table in tables:
        assert len({cells(row) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("start", ["# a", "- a", "+ a", "12. a", "1) a", "---", "==="])
def test_a_message_begins_no_block(start: str) -> None:
    finding = Finding(title="t", message=start, fix="f", ranks=(0,), id="launch/fault")
    lines = markdown.render(_with(finding)).splitlines()
    assert not any(line.strip().removesuffix("<br>") == start for line in lines)


@pytest.mark.parametrize("plain", ["#a", "-a", "0.1 s", "1.5", "snake_case_name", "a-b"])
def test_harmless_text_is_left_as_it_is(plain: str) -> None:
    finding = Finding(title="t", message=plain, fix="f", ranks=(0,), id="launch/fault")
    assert f"\n  {plain}<br>\n" in markdown.render(_with(finding))


def _with(finding: Finding) -> Report:
    return report(run(world_size=1, hosts=()), ranks(1, 1), [check("launch/fault")], [finding])
