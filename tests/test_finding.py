"""Findings: what they must say, and how they weigh."""

from typing import Any

import msgspec
import pytest

from ddpcheck.finding import Confidence, Finding, Location, Severity

WORDS: dict[str, Any] = {"title": "A fault", "message": "3 ms, limit 2 ms", "fix": "mend it"}


@pytest.mark.parametrize("left_out", WORDS)
def test_needs_a_title_a_message_and_a_fix(left_out: str) -> None:
    words = WORDS.copy()
    words[left_out] = ""
    with pytest.raises(ValueError, match="needs a title, a message and a fix"):
        Finding(ranks=(0,), **words)


def test_is_a_sure_error_without_a_place_unless_told_otherwise() -> None:
    finding = Finding(ranks=(0,), **WORDS)
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert (finding.location, finding.evidence, finding.id) == (None, {}, "")


def test_two_findings_share_no_evidence() -> None:
    first, second = Finding(ranks=(0,), **WORDS), Finding(ranks=(0,), **WORDS)
    assert first.evidence is not second.evidence


def test_severities_are_ordered() -> None:
    assert sorted(Severity, key=lambda each: each.weight) == ["info", "warning", "error"]


@pytest.mark.parametrize(
    ("location", "text"),
    [(Location("a.py", 3), "a.py:3"), (Location("a.py", 3, "step"), "a.py:3 in step")],
)
def test_a_location_reads_like_a_traceback(location: Location, text: str) -> None:
    assert str(location) == text


def test_survives_json() -> None:
    finding = Finding(
        ranks=(0, 2),
        severity=Severity.WARNING,
        confidence=Confidence.LOW,
        location=Location("a.py", 3),
        evidence={"ms": [1.5, None], "of": {"rank": 1}},
        id="data/fault",
        **WORDS,
    )
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
