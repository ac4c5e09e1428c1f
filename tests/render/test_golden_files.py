"""Every format of every sample, as it was last looked at; ``render_samples.py`` writes them anew."""

import pytest
from render_samples import GOLDEN, golden, golden_pairs, sample

from ddpcheck.render import render


@pytest.mark.parametrize(("name", "format_name"), golden_pairs())
def test_looks_like_its_golden_file(name: str, format_name: str) -> None:
    shown = render(sample(name), format_name).encode()
    assert shown == golden(name, format_name).read_bytes()


def test_no_golden_file_is_left_over() -> None:
    compared = {golden(name, format_name).name for name, format_name in golden_pairs()}
    assert {file.name for file in GOLDEN.iterdir()} == compared
