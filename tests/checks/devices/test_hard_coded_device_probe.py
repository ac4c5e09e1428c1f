from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.hard_coded_device import probe


def test_probe_reads_the_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nmodel.to('cuda:0')\nmodel.to('cuda')\n")
    facts = probe(context_with(script=str(tmp_path / "train.py")))
    assert [place.line for place in facts.places] == [2]
    assert (facts.on_gpu, facts.gpus) == (False, 0)


def test_a_built_in_target_is_skipped() -> None:
    with pytest.raises(Skip, match="built in"):
        probe(context_with())


def test_a_script_that_masks_gpus_is_skipped(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text('import os\nos.environ["CUDA_VISIBLE_DEVICES"] = rank\nm.to("cuda:0")\n')
    with pytest.raises(Skip, match="CUDA_VISIBLE_DEVICES"):
        probe(context_with(script=str(script)))
