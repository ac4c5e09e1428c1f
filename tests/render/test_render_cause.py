"""The cause of a report in one line."""

import msgspec
import pytest
from render_samples import SAMPLES

from ddpcheck.finding import Severity
from ddpcheck.render import render


@pytest.mark.parametrize(
    ("sample", "told"),
    [
        ("healthy", "verdict: PASS, 0 errors, 0 warnings, 2 skipped\n"),
        ("failing", "network/hostname-is-loopback: "),
        ("incomplete", "rank 1 (node0) stalled: no answer for 60 s in "),
    ],
)
def test_the_worst_is_told(sample: str, told: str) -> None:
    assert render(SAMPLES[sample](), "cause").startswith(told)


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_is_one_line_that_fits(sample: str) -> None:
    shown = render(SAMPLES[sample](), "cause")
    assert shown.count("\n") == 1
    assert 10 < len(shown) <= 201
    assert shown.strip().isprintable()


def test_information_is_no_cause() -> None:
    sample = SAMPLES["failing"]()
    mild = [msgspec.structs.replace(each, severity=Severity.INFO) for each in sample.findings]
    assert "verdict: " in render(msgspec.structs.replace(sample, findings=mild), "cause")
