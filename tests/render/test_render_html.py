"""The format html, against golden files; ``page_samples.py`` writes them anew."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from page_samples import PAGES, all_failed, golden_page, measured, stripped
from pages import Page, text
from render_samples import CRASH, STACK, crowd, failing, healthy, incomplete

from ddpcheck.cli import main
from ddpcheck.errors import ExitCode, ReportError
from ddpcheck.render import render
from ddpcheck.render.formats import html

LIMIT_BYTES = 1_000_000
SECTIONS = (
    *("verdict", "ranks", "findings", "settings", "baseline", "gone", "speed", "training"),
    *("environment", "checks", "recommendation"),
)


@pytest.fixture(scope="module", name="pages")
def _pages() -> dict[str, Page]:
    return {name: Page(render(sample(), "html", "r/report.json")) for name, sample in PAGES.items()}


@pytest.mark.parametrize("name", PAGES)
def test_looks_like_its_golden_file(name: str) -> None:
    shown = stripped(render(PAGES[name](), "html"))
    assert shown == golden_page(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_loads_nothing_and_runs_nothing(name: str, pages: dict[str, Page]) -> None:
    tags = {each.tag for each in pages[name].elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    attributes = [
        (key, value) for each in pages[name].elements for key, value in each.attributes.items()
    ]
    assert not [key for key, _ in attributes if key.startswith("on") or key == "src"]
    assert {value[0] for key, value in attributes if key in ("href", "xlink:href")} == {"#"}


@pytest.mark.parametrize("name", PAGES)
def test_only_inline_styles_are_allowed(name: str, pages: dict[str, Page]) -> None:
    (policy,) = [
        each.attributes["content"]
        for each in pages[name].all_of("meta")
        if each.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules.pop("style-src") == "'unsafe-inline'"
    assert rules["default-src"] == "'none'"
    assert set(rules.values()) == {"'none'"}


@pytest.mark.parametrize("name", PAGES)
def test_every_id_is_there_once_and_every_anchor_leads_to_one(
    name: str, pages: dict[str, Page]
) -> None:
    counts = Counter(
        each.attributes["id"] for each in pages[name].elements if "id" in each.attributes
    )
    assert {each for each, count in counts.items() if count > 1} == set()
    hrefs = {
        value.removeprefix("#")
        for each in pages[name].elements
        for key, value in each.attributes.items()
        if key in ("href", "xlink:href")
    }
    assert hrefs <= set(counts)
    clips = re.findall(r"url\(#([^)]+)\)", str([e.attributes for e in pages[name].elements]))
    assert set(clips) <= set(counts)


@pytest.mark.parametrize("name", PAGES)
def test_sections_stand_in_their_order_and_the_contents_name_them(
    name: str, pages: dict[str, Page]
) -> None:
    there = [each.attributes["id"] for each in pages[name].all_of("section")]
    assert there == [each for each in SECTIONS if each in there]
    named = [each.attributes["href"] for each in pages[name].all_of("a") if "nav" in each.within]
    assert named == [f"#{each}" for each in there if each != "verdict"]


def test_everything_measured_has_its_section(pages: dict[str, Page]) -> None:
    there = {each.attributes["id"] for each in pages["measured"].all_of("section")}
    assert there == set(SECTIONS) - {"gone", "settings", "baseline"}
    titles = [text(each) for each in pages["measured"].all_of("h3") if "figure" in each.within]
    assert titles == [
        "Bandwidth of collectives",
        "Step time by rank",
        "Stragglers",
        "Loss",
        "Speed-up",
    ]


def test_the_verdict_and_its_cause_come_first(pages: dict[str, Page]) -> None:
    page = pages["failing"]
    assert text(next(page.all_of("h1"))) == "✗ Verdict: FAIL"
    assert page.text_of("p", class_="cause") == "A host resolves its own name to a loopback address"
    assert page.text_of("p", class_="fix").startswith("Fix: export GLOO_SOCKET_IFNAME=eth0")
    assert page.text_of("p", class_="more").endswith("and 1 further finding")


def test_who_stalled_is_the_cause_where_no_finding_names_one(pages: dict[str, Page]) -> None:
    page = pages["incomplete"]
    assert page.text_of("p", class_="cause") == "1 rank stalled in collectives/all-reduce-values"
    assert "line 41 in step" in page.text_of("pre")


def test_a_check_that_raised_is_the_cause_and_shows_its_traceback(pages: dict[str, Page]) -> None:
    page = pages["check_error"]
    assert "raised an error of its own" in page.text_of("p", class_="cause")
    shown = [text(each) for each in page.all_of("pre")]
    assert any("bucket_views.py" in each for each in shown)
    assert "bucket_views.py" in CRASH


def test_a_pass_says_what_was_skipped(pages: dict[str, Page]) -> None:
    assert "5 checks passed, 2 skipped: a skip is no pass." in text(
        next(pages["healthy"].all_of("section", id="verdict"))
    )


def test_what_people_attach_names_the_report(pages: dict[str, Page]) -> None:
    assert "r/report.json" in pages["healthy"].text_of("footer")


def test_a_finding_shows_its_place_its_fix_and_its_evidence(pages: dict[str, Page]) -> None:
    failed = [text(each) for each in pages["failing"].all_of("article")]
    assert "At train.py:3 in main" in failed[1]
    assert "medium confidence" in failed[1]
    (late,) = [text(each) for each in pages["measured"].all_of("article")]
    assert "waited_s: 6 0.024" in late
    assert "names a, b" in late
    assert "nvidia-smi -q -d PERFORMANCE,CLOCK" in late


def test_the_manual_of_a_check_goes_with_its_finding() -> None:
    shown = Page(render(measured(), "html")).text_of("details", class_="manual")
    assert "Why it matters" in shown
    assert "A synchronous step is as long as the slowest rank's." in shown


def test_64_ranks_with_all_that_can_be_measured_are_under_a_megabyte() -> None:
    assert len(render(measured(64), "html").encode()) < LIMIT_BYTES / 5


@pytest.mark.parametrize("evil", ['"' * 10**6, "\U000e0001" * 10**6, "\n" * 10**6, "&é<" * 10**6])
def test_what_grows_when_it_is_escaped_is_under_a_megabyte(evil: str) -> None:
    shown = render(all_failed(64, evil), "html", evil)
    assert len(shown.encode()) < LIMIT_BYTES
    assert "more stories in report.json" in shown or "did not come through" in shown


def test_1024_ranks_with_500_findings_are_under_a_megabyte_and_count_what_is_cut() -> None:
    shown = render(crowd(1024, findings=500), "html")
    assert len(shown.encode()) < LIMIT_BYTES
    assert re.search(r"… and \d+ more findings in report.json", shown)
    Page(shown)


def test_the_same_report_gives_the_same_page_in_another_process() -> None:
    source = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from page_samples import measured\n"
        "from ddpcheck.render import render\n"
        "sys.stdout.buffer.write(render(measured(3), 'html').encode())\n"
    )
    command = [sys.executable, "-c", source, str(golden_page("x").parent.parent)]
    done = subprocess.run(command, capture_output=True, check=True, env={"PYTHONHASHSEED": "7"})
    assert done.stdout.decode() == render(measured(3), "html")
    assert done.stderr == b""


@pytest.mark.parametrize("package", html.EXTRA)
def test_where_a_package_is_missing_one_line_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ReportError, match=r"pip install 'ddpcheck\[html\]'") as raised:
        render(healthy(), "html")
    assert package in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_run_that_could_not_show_its_page_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["run", "--format", "html", "--report-dir", str(tmp_path)]) == ExitCode.USAGE
    told = capsys.readouterr()
    assert told.err == (
        "ddpcheck: the format html needs matplotlib: pip install 'ddpcheck[html]'\n"
    )
    assert (told.out, list(tmp_path.iterdir())) == ("", [])


def test_failed_ranks_that_a_finding_names_are_not_told_of_twice() -> None:
    assert "gone" not in {
        each.attributes["id"] for each in Page(render(failing(), "html")).all_of("section")
    }


def test_a_stack_keeps_its_lines() -> None:
    assert STACK.splitlines()[2] in render(incomplete(), "html").replace("&#34;", '"')
