"""What a settings file changed is shown, in every format that lists findings."""

import json

import msgspec
import pytest
from compared_sample import ASKED, FINDING, LINK, configured
from render_samples import check, hostile, ranks, report, run

from ddpcheck.configuration import Suppressed, Suppression
from ddpcheck.finding import Location
from ddpcheck.render import render
from ddpcheck.render.configuration import configuration_lines

LINES = [
    "settings from ddpcheck.toml: profile=quick skip=devices; pyproject.toml beside it is passed over",
    "severity of network/*: info",
    f"threshold of {LINK}: LONG_S is 0.01 instead of 0.005",
    (
        f"suppressed warning {LINK}, ranks 8-9 (node1), train.py:7: a link loses packets "
        "(reason: a WAN, ticket 7)"
    ),
    "unused suppression of data/* matching epoch at train.py:7 (reason: old): remove it",
]


def test_each_change_has_a_line() -> None:
    assert configuration_lines(configured()) == LINES


def test_without_a_file_there_is_none() -> None:
    plain = report(run(world_size=1, hosts=("node0",)), ranks(1, 1), [check(LINK)])
    assert configuration_lines(plain) == []
    assert "### Settings" not in render(plain, "markdown")


def test_text_shows_them_and_counts_what_is_suppressed() -> None:
    shown = render(configured(), "text")
    for line in LINES:
        assert line in " ".join(shown.split())
    assert shown.splitlines()[-1] == "verdict: PASS, 0 errors, 0 warnings, 1 suppressed"


def test_markdown_shows_them() -> None:
    shown = render(configured(), "markdown")
    assert "### Settings\n\n- settings from ddpcheck.toml" in shown
    assert "1 suppressed" in shown.splitlines()[0]
    assert "reason: a WAN, ticket 7" in shown


def test_json_has_them_apart_from_the_findings() -> None:
    shown = json.loads(render(configured(), "json"))
    assert shown["findings"] == []
    assert shown["suppressed"][0]["reason"] == "a WAN, ticket 7"
    assert shown["suppressed"][0]["finding"]["id"] == LINK
    assert shown["unused_suppressions"][0]["check"] == "data/*"
    assert shown["run"]["configuration"]["thresholds"][0]["default"] == 0.005


@pytest.mark.parametrize("format_name", ["text", "markdown"])
def test_hostile_texts_stay_within_their_line(format_name: str) -> None:
    evil = "x\n\x1b[2J # <b> | `\n" * 40
    finding = msgspec.structs.replace(FINDING, title=evil, location=Location(evil, 1))
    suppression = Suppression(check=evil, reason=evil, match=evil)
    asked = msgspec.structs.replace(ASKED, file=evil, options={"skip": evil})
    base = configured(hostile())
    shown = render(
        msgspec.structs.replace(
            base,
            run=msgspec.structs.replace(base.run, configuration=asked),
            suppressed=(Suppressed(finding, evil),) * 200,
            unused_suppressions=(suppression,) * 200,
        ),
        format_name,
    )
    assert "\x1b" not in shown
    assert len(shown) < 65_000
    if format_name == "text":
        assert max(map(len, shown.splitlines()[:-1])) <= 100
        assert "more lines in report.json" in shown
