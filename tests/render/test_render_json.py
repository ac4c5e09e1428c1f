"""The JSON format, and how a format is found by its name."""

import pytest
from render_samples import SAMPLES, healthy

from ddpcheck.errors import ReportError
from ddpcheck.render import formats, render
from ddpcheck.report import from_json

READABLE = [name for name in SAMPLES if name != "hostile"]


@pytest.mark.parametrize("name", READABLE)
def test_a_report_read_back_looks_the_same_in_every_format(name: str) -> None:
    again = from_json(render(SAMPLES[name](), "json").encode())
    for format_name in formats():
        assert render(again, format_name) == render(SAMPLES[name](), format_name)


def test_the_formats_are_the_modules_that_render() -> None:
    assert {"json", "markdown", "text"} <= set(formats())
    assert not {"manual", "table", "words"} & set(formats())


@pytest.mark.parametrize("format_name", ["text", "markdown"])
def test_what_people_read_names_the_file(format_name: str) -> None:
    assert "reports/x/report.json" in render(healthy(), format_name, path="reports/x/report.json")


@pytest.mark.parametrize("name", ["yaml", "", "words", "table", "..cli", "os.path"])
def test_an_unknown_format_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ReportError, match=r"no format is called .* json, .*markdown, .*text"):
        render(healthy(), name)
