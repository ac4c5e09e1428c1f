"""Names, messages, paths and variables from elsewhere are harmless in every format.

Whatever stands in them, what comes out can be read by the parser of its format, and no
character in it moves a cursor, hides text, or begins a line, a tag or a command of its own.
"""

import json
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_parts import check, ranks, report, run
from test_render_github import COMMAND
from test_render_openmetrics import PARSERS

from ddpcheck.finding import Finding, Location, Recommendation, Severity
from ddpcheck.render import formats, render
from ddpcheck.report import (
    FoldedFact,
    LastSeen,
    RankOutcome,
    RankRecord,
    Report,
    from_json,
    to_json,
)

EVIL = [
    "<script>alert(1)</script>",
    "]]>&amp;<!--",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202ereversed\u2066",
    "a\nb\r\nc\x85d\u2028e\x0bf",
    "::error::x%0A",
    '"} 1\n# EOF\nevil{a="',
    "\ud800 lone, \udcff half",
    "\x00\x01\ufffe\uffff",
    "$(reboot) `id` ; | && -x",
    "@everyone ![x](http://h/)",
    "```\n</details>\n# h",
    "`<>",
]
HOSTILE = st.one_of(
    st.sampled_from(EVIL),
    st.text(alphabet=st.characters(), max_size=60),
    st.lists(st.sampled_from(EVIL), min_size=2, max_size=4).map("".join),
)
MEGABYTE = 1 << 20
FENCED = re.compile(r"^(`{3,})text\n.*?^\1$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
SUMMARY = re.compile(r"^<details><summary>.*$", re.MULTILINE)
OUR_TAGS = {"<br>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}
# Those that are for people, line by line; the others are read by programs.
PLAIN = (
    *("text", "durations", "markdown", "cause", "github"),
    *("bad-hosts", "good-hosts", "openmetrics"),
)


def report_of(evil: str, name: str) -> Report:
    """Return a report in which every text that ranks can tell is ``evil`` or ``name``."""
    records = ranks(3, 2, "cpu")
    records[1] = RankRecord(
        rank=1,
        host=name,
        device=evil,
        outcome=RankOutcome.STALLED,
        reason=evil,
        last_seen=LastSeen(name, evil),
    )
    records[2] = RankRecord(rank=2, host=evil, outcome=RankOutcome.FAILED, reason=name)
    filled = evil.strip() or "-"
    findings = [
        Finding(
            id=name,
            severity=severity,
            title=filled,
            message=filled,
            fix=filled,
            ranks=(0, 1, 2),
            location=Location(evil, -1, name),
            evidence={name: evil, evil: [evil, float("nan")]},
        )
        for severity in Severity
    ]
    outcomes = ("pass", "fail", "skip", "error")
    checks = [check(name, evil, each, reason=evil, summary=evil, title=evil) for each in outcomes]
    versions = {"torch": evil, name: evil}
    about: dict[str, Any] = {"command": evil, "launcher": evil, "backend": name, "target": evil}
    return report(
        run(world_size=3, hosts=(name, evil), id=evil, started_at=evil, versions=versions, **about),
        records,
        checks,
        findings,
        recommendation={name: Recommendation(evil, evil)},
        facts={
            name: [FoldedFact((0, 1), {evil: evil})],
            "collectives/low-bandwidth": [FoldedFact((0,), {"speeds": evil})],
        },
        training={"strategy": evil, "loss": evil, "checkpoint": evil},
    )


def is_clean(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def is_json(text: str) -> bool:
    json.loads(text)
    return True


def is_xml(text: str) -> bool:
    cases = list(ET.fromstring(text).iter("testcase"))
    return all(is_clean(part) for case in cases for part in case.itertext())


def is_metrics(text: str) -> bool:
    told = [[sample for family in parse(text) for sample in family.samples] for parse in PARSERS]
    return told[0] == told[1] and all(each.name.startswith("ddpcheck_") for each in told[0])


def are_commands(text: str) -> bool:
    return all(COMMAND.fullmatch(line) for line in text.removesuffix("\n").split("\n"))


def is_one_line(text: str) -> bool:
    return text.count("\n") == 1


def is_one_word(text: str) -> bool:
    return text.count("\n") == 1 and " " not in text


def has_no_tag_of_its_own(text: str) -> bool:
    # Code fences and spans show what they hold as it is; outside, no tag but ours.
    outside = FENCED.sub("", text).replace("\\`", "")
    # A summary's line is HTML to GitHub: a backtick there begins no code.
    outside = SUMMARY.sub(lambda line: line[0].replace("`", ""), outside)
    return set(re.findall(r"<[^>]*>", SPAN.sub("", outside))) <= OUR_TAGS


READ: dict[str, Callable[[str], bool]] = {
    "json": is_json,
    "sarif": is_json,
    "trace": is_json,
    "junit": is_xml,
    "openmetrics": is_metrics,
    "github": are_commands,
    "cause": is_one_line,
    "bad-hosts": is_one_word,
    "good-hosts": is_one_word,
    "text": str.isascii,
    "durations": str.isascii,
    "markdown": has_no_tag_of_its_own,
}


@pytest.mark.parametrize("format_name", formats())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(evil=HOSTILE, name=HOSTILE)
def test_whatever_came_the_format_can_be_read(format_name: str, evil: str, name: str) -> None:
    shown = render(report_of(evil, name), format_name, path=f"reports/{name}/report.json")
    shown.encode()  # no lone surrogate is left
    assert shown.endswith("\n")
    assert READ.get(format_name, bool)(shown)
    if format_name in PLAIN:
        assert is_clean(shown)


@settings(deadline=None, max_examples=40)
@given(evil=HOSTILE, name=HOSTILE)
def test_a_hostile_report_is_read_back(evil: str, name: str) -> None:
    again = from_json(to_json(report_of(evil, name)))
    assert to_json(from_json(to_json(again))) == to_json(again)
    for format_name in formats():
        render(again, format_name)


@pytest.mark.parametrize("format_name", formats())
@pytest.mark.parametrize("evil", ["x", "<\x1b@é", "a b\n"])
def test_a_megabyte_in_every_text_is_a_file_of_sane_size(format_name: str, evil: str) -> None:
    text = (evil * MEGABYTE)[:MEGABYTE]
    shown = render(report_of(text, f"n/{text}"), format_name, path=text[:1000])
    if format_name != "json":  # which keeps everything
        assert len(shown) < MEGABYTE
    assert READ.get(format_name, bool)(shown)
