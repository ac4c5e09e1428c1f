"""The published JSON Schema of the report: up to date, and what every report is valid by."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from real_ranks import run

from ddpcheck.report import REPORT_NAME
from ddpcheck.report_schema import report_schema, schema_text

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "reports" / "schema" / "report-1.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(PUBLISHED.read_bytes()))
KEPT = sorted(
    [
        *(ROOT / "reports" / "samples").glob(f"*/{REPORT_NAME}"),
        *(ROOT / "tests" / "render" / "golden").glob("*.json"),
    ]
)
REPORTS = [path for path in KEPT if not path.name.endswith("trace.json")]


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def healthy() -> dict[str, Any]:
    sample: dict[str, Any] = json.loads(
        (ROOT / "reports" / "samples" / "gloo-2-ranks" / REPORT_NAME).read_bytes()
    )
    return sample


def test_what_is_published_is_what_the_types_say() -> None:
    assert PUBLISHED.read_bytes() == schema_text(), "see the docstring of ddpcheck.report_schema"


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(report_schema())


@pytest.mark.parametrize("path", REPORTS, ids=name_of)
def test_every_kept_report_is_valid(path: Path) -> None:
    VALIDATOR.validate(json.loads(path.read_bytes()))


def test_a_new_report_of_real_ranks_is_valid(tmp_path: Path) -> None:
    ended = run(tmp_path, "--select", "launch,environment,collectives", "--profile", "quick")
    assert ended.exit_code == 0, ended.stderr
    (written,) = tmp_path.glob(f"ddpcheck-*/{REPORT_NAME}")
    VALIDATOR.validate(json.loads(written.read_bytes()))


def test_what_a_newer_version_adds_is_allowed() -> None:
    report = healthy()
    report["weather"] = "fine"
    report["run"]["mood"] = {"good": True}
    report["ranks"][0]["shoe_size"] = 43
    assert VALIDATOR.is_valid(report)


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [
        ("run", "world_size", "two"),
        ("run", "hosts", None),
        ("", "verdict", "maybe"),
        ("", "format_version", 2),
        ("", "facts", []),
    ],
)
def test_another_type_is_refused(section: str, field: str, value: Any) -> None:
    report = healthy()
    (report[section] if section else report)[field] = value
    assert not VALIDATOR.is_valid(report)


@pytest.mark.parametrize("field", ["format_version", "verdict", "run", "ranks", "facts"])
def test_what_others_rely_on_is_required(field: str) -> None:
    report = healthy()
    del report[field]
    assert not VALIDATOR.is_valid(report)
