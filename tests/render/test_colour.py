"""When the text format is coloured, and what is."""

import re

import pytest
from render_samples import SAMPLES, sample

from ddpcheck.render import render
from ddpcheck.render.colour import painted, wants_colour

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize(
    ("environ", "is_terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm"}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_who_gets_colour(environ: dict[str, str], is_terminal: bool, wanted: bool) -> None:
    assert wants_colour(environ, is_terminal=is_terminal) is wanted


@pytest.mark.parametrize("name", SAMPLES)
def test_colour_changes_no_text(name: str) -> None:
    text = render(sample(name), "text")
    shown = painted(text)
    assert ESCAPES.sub("", shown) == text
    assert len(ESCAPES.findall(shown)) >= 4


def test_verdict_outcomes_and_severities_are_coloured() -> None:
    shown = painted(render(sample("failing"), "text"))
    assert "\n\x1b[1;31mverdict: FAIL\x1b[0m, 1 error" in shown
    assert "\n\x1b[31merror\x1b[0m    network/hostname-is-loopback" in shown
    assert "\n\x1b[33mwarning\x1b[0m  environment" in shown
    assert "\n  \x1b[32mpass\x1b[0m   launch/" in shown
    assert "\n  \x1b[2mskip\x1b[0m   devices/" in shown


def test_words_within_a_line_are_left_alone() -> None:
    assert painted("a pass, an error\n         error of torch\n") == (
        "a pass, an error\n         error of torch\n"
    )
