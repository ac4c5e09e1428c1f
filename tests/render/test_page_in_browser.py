"""The page in a real Chromium: wide and narrow, light and dark, by keyboard, on paper.

Needs Chromium, Node.js and npm (``.ci/browser`` installs them), and puppeteer-core and axe-core,
which npm puts into a temporary folder. With PICTURES=FOLDER pictures of all pages are put there.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from page_samples import PAGES, bandwidth_fact, folded, speeds, training, turns_fact
from render_samples import check, ranks, report, run

from ddpcheck.finding import Finding, Location, Recommendation
from ddpcheck.render import render
from ddpcheck.report import FoldedFact, LastSeen, RankOutcome, Report

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PACKAGES = ("puppeteer-core@24.43.1", "axe-core@4.14.1")
LOOK = Path(__file__).parent / "look_at_pages.js"
SERIOUS = ("serious", "critical")
# WCAG 2.2, success criterion 1.4.3: text of this size needs 4.5 to 1.
LEAST_CONTRAST = 4.5
# Of a line of text in a plot; letters of 9 pixels are some 10 high with what hangs below them.
LEAST_TEXT_PX = 9
INSTALL_S, LOOK_S = 240, 300
ATTACKS = (
    "<script>window.hit = 1</script>",
    "</style></pre></title><script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 1">',
    "' onmouseover='window.hit = 1' x='",
    "<svg onload=window.hit=1>",
    "</svg></text><iframe srcdoc='<script>parent.hit = 1</script>'>",
    "javascript:window.hit=1",
    "{{ 7 * 7 }}{% raw %}",
    "]]><!-- -->",
    "\x1b[2J\x1b]0;hit\x07",
    "\u202e\u2066\ufeff",
    "\ud800",
    "a\nb\r\n\tc\x00d",
    "$\\frac{1}{0}$",
)
EVIL = " ".join(ATTACKS)


def hostile_page() -> Report:
    """Return a report whose every text from elsewhere would take over a page that believed it."""
    huge = EVIL + "x" * 10**6
    records = ranks(4, 2)
    records[1] = structs.replace(
        records[1],
        host=EVIL,
        device=EVIL,
        outcome=RankOutcome.STALLED,
        reason=huge,
        last_seen=LastSeen(EVIL, f"{EVIL}\n{huge}"),
    )
    found = Finding(
        id=EVIL,
        title=EVIL,
        message=huge,
        fix=EVIL,
        ranks=(1,),
        location=Location(EVIL, 3, EVIL),
        evidence={EVIL: huge, "by": {EVIL: EVIL}, "list": [EVIL] * 3},
    )
    odd_speeds = {**bandwidth_fact(1, 4), "speeds": [{**e, "kind": EVIL} for e in speeds()]}
    facts = {
        "collectives/low-bandwidth": folded(dict.fromkeys(range(4), odd_speeds)),
        "collectives/far-below-links": [
            FoldedFact((0,), {"ways": [{"gbps": 9.0, "target": 1, "words": EVIL}]})
        ],
        "collectives/late-rank": folded({rank: turns_fact(rank, 1) for rank in range(4)}),
        "environment/variables-differ": folded(
            {rank: {EVIL: f"{EVIL} {rank}", "PATH": f"{huge}{rank}"} for rank in range(4)}
        ),
    }
    rows = [{**row, "strategy": EVIL, "mesh": EVIL, "reason": EVIL} for row in training()["parity"]]
    return report(
        run(
            world_size=4,
            hosts=(EVIL,),
            command=huge,
            id=EVIL,
            launcher=EVIL,
            versions={"torch": EVIL},
        ),
        records,
        [check(f"{EVIL}/x", EVIL, "error", reason=f"{EVIL}\n{huge}", summary=EVIL)],
        [found],
        facts=facts,
        training={**training(), "parity": rows, "checkpoint": huge},
        recommendation={EVIL: Recommendation(EVIL, huge)},
    )


HONEST = ("healthy", "failing", "incomplete", "measured", "measured_4096_ranks")
LOOKED_AT: dict[str, Callable[[], Report]] = {
    **{name: PAGES[name] for name in HONEST},
    "attack": hostile_page,
}


@pytest.fixture(scope="module", name="looks")
def _looks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what the browser saw of each page in each width, light and dark."""
    browser = _require_browser()
    folder = tmp_path_factory.mktemp("pages")
    packages = _require_packages(folder)
    files = [folder / f"{name}.html" for name in LOOKED_AT]
    for file in files:
        file.write_text(render(LOOKED_AT[file.stem](), "html", "r/report.json"), encoding="utf-8")
    command = ["node", str(LOOK), browser, *map(str, files)]
    environ = {**os.environ, "NODE_PATH": str(packages)}
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=LOOK_S, check=False
    )
    assert done.returncode == 0, done.stderr
    looks: list[dict[str, Any]] = json.loads(done.stdout)
    return looks


def _require_browser() -> str:
    found = [path for name in BROWSERS if (path := shutil.which(name))]
    missing = [name for name in ("node", "npm") if not shutil.which(name)]
    if not found or missing:
        named = ", ".join([*missing, *([] if found else ["Chromium"])])
        _give_up(f"no {named}: .ci/browser installs them")
    return found[0]


def _require_packages(folder: Path) -> Path:
    command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        _give_up(f"npm cannot install {' and '.join(PACKAGES)}: {done.stderr.strip()[-200:]}")
    return folder / "node_modules"


def _give_up(reason: str) -> None:
    # CI has them all: there a skip would pass for a test.
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


def of_all(looks: list[dict[str, Any]], name: str) -> dict[tuple[str, int, str], Any]:
    return {(look["page"], look["width"], look["wanted"]): look[name] for look in looks}


def test_every_page_is_seen_wide_and_narrow_light_and_dark(looks: list[dict[str, Any]]) -> None:
    wanted = {(p, w, s) for p in LOOKED_AT for w in (1280, 390) for s in ("light", "dark")}
    assert set(of_all(looks, "scheme")) == wanted
    assert all(scheme == key[2] for key, scheme in of_all(looks, "scheme").items())


def test_the_browser_has_nothing_to_say_and_nothing_to_load(looks: list[dict[str, Any]]) -> None:
    assert {key: said for key, said in of_all(looks, "said").items() if said} == {}
    assert {key: urls for key, urls in of_all(looks, "asked").items() if urls} == {}


def test_axe_finds_nothing(looks: list[dict[str, Any]]) -> None:
    assert {key: each for key, each in of_all(looks, "accessibility").items() if each} == {}
    # It has looked: each of these pages gives it dozens of rules to try.
    assert min(of_all(looks, "rulesPassed").values()) > 15


def test_nothing_of_a_report_is_run(looks: list[dict[str, Any]]) -> None:
    assert not any(of_all(looks, "hit").values())
    assert set(of_all(looks, "scripts").values()) == {0}
    assert set(of_all(looks, "handlers").values()) == {0}
    titles = {look["title"].partition(":")[0] for look in looks}
    assert titles == {"PASS", "WARN", "FAIL", "INCOMPLETE"}


def test_no_page_scrolls_sideways(looks: list[dict[str, Any]]) -> None:
    wide = {
        (look["page"], look["width"]): look["pageWidth"]
        for look in looks
        if look["pageWidth"] > look["windowWidth"]
    }
    assert wide == {}


def test_verdict_and_cause_are_on_the_first_screen(looks: list[dict[str, Any]]) -> None:
    honest = [look for look in looks if look["page"] in HONEST]
    assert max(look["verdictTop"] for look in honest) < 200
    assert max(look["causeBottom"] for look in honest) < 400


def test_plots_can_be_read_light_and_dark_and_on_a_phone(looks: list[dict[str, Any]]) -> None:
    plots = [look for look in looks if look["page"] == "measured"]
    assert {look["plots"] for look in plots} == {5}
    assert min(look["plotTexts"] for look in plots) > 40
    assert min(look["leastPlotContrast"] for look in looks) >= LEAST_CONTRAST
    assert min(look["leastPlotTextPx"] for look in plots) >= LEAST_TEXT_PX
    assert min(look["smallestPlotPx"] for look in plots) > 300


def test_the_keyboard_comes_everywhere_and_shows_where_it_is(looks: list[dict[str, Any]]) -> None:
    for look in looks:
        assert look["stops"][0]["href"] == "#main"
        assert all(stop["shows"] for stop in look["stops"]), look["page"]
        assert look["opens"] in (True, None)
    assert any(look["opens"] for look in looks)


def test_on_paper_nothing_is_folded(looks: list[dict[str, Any]]) -> None:
    printed = of_all(looks, "print")
    assert {key: each["hidden"] for key, each in printed.items() if each["hidden"]} == {}
    assert printed["measured", 1280, "light"]["folded"] > 5
