from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.load_without_map_location import probe


def test_probe_reads_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\ntorch.load(path)\ntorch.load(path, map_location='cpu')\n"
    )
    facts = probe(context_with(script=str(tmp_path / "train.py")))
    assert [place.line for place in facts.places] == [2]
    assert (facts.on_gpu, facts.gpus) == (False, 0)


def test_a_built_in_target_is_skipped() -> None:
    with pytest.raises(Skip, match="built in"):
        probe(context_with())
