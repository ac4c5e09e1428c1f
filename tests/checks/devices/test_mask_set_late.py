from pathlib import Path

import msgspec
import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices.mask_set_late import Facts, judge, probe
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.script import Place

AFTER_IMPORT = Place(3, "os.environ['CUDA_VISIBLE_DEVICES'] = '0'", "line 1: import torch")
AFTER_CUDA = Place(9, "os.environ['CUDA_VISIBLE_DEVICES'] = '0'", "CUDA in use since line 7: x()")
LATE = 'import os, torch\ntorch.cuda.init()\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'


def rank(*places: Place, **changed: object) -> Facts:
    own = Facts("/train.py", True, places, None, None, 8)
    return msgspec.structs.replace(own, **changed)


def only(*facts: Facts) -> Finding:
    (finding,) = judge(dict(enumerate(facts)))
    return finding


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(rank(), id="no mask"),
        pytest.param(rank(mask_at_start="1", mask="1", gpus=1), id="the launcher's mask"),
        pytest.param(rank(mask="1", gpus=1), id="a mask that counts"),
        pytest.param(rank(mask="0,1", gpus=2), id="two GPUs of eight"),
        pytest.param(rank(mask_at_start="1"), id="taken away"),
        pytest.param(rank(mask="1", on_gpu=False, gpus=None), id="on a CPU"),
    ],
)
def test_silent(own: Facts) -> None:
    assert judge({0: own, 1: own}) == []


def test_after_cuda_is_a_warning() -> None:
    found = only(rank(AFTER_CUDA), rank(AFTER_CUDA))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert found.ranks == (0, 1)
    assert str(found.location) == "/train.py:9"
    assert "line 7" in found.message
    assert "launch script" in found.fix


def test_on_a_cpu_it_is_information() -> None:
    assert only(rank(AFTER_CUDA, on_gpu=False, gpus=None)).severity is Severity.INFO


def test_after_an_import_it_is_information() -> None:
    assert only(rank(AFTER_IMPORT)).severity is Severity.INFO


def test_a_mask_that_cuda_does_not_follow_is_a_fact() -> None:
    found = only(rank(AFTER_IMPORT, mask="1"))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "became '1', and CUDA still shows 8" in found.message


def test_a_mask_that_another_file_set_has_no_place() -> None:
    found = only(rank(mask="1"))
    assert (found.severity, found.location) == (Severity.WARNING, None)


def test_probe_reads_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(LATE)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    facts = probe(context_with(script=str(tmp_path / "train.py"), environ={}))
    assert [place.line for place in facts.places] == [3]
    assert (facts.mask_at_start, facts.mask, facts.gpus) == (None, "1", None)


def test_a_built_in_target_is_skipped() -> None:
    with pytest.raises(Skip, match="built in"):
        probe(context_with())
