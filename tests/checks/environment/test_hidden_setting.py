from pathlib import Path

import pytest
from contexts import context_with

from ddpcheck.checks.environment import hidden_setting
from ddpcheck.checks.environment.hidden_setting import Facts, judge, probe, summarize
from ddpcheck.finding import Severity
from ddpcheck.variables.nccl_conf import ConfFile

SYSTEM = ConfFile("/etc/nccl.conf", {"NCCL_IB_TC": "106"})


def rank(*files: ConfFile, host: str = "node0", on_gpu: bool = True, **overriding: str) -> Facts:
    return Facts(host, on_gpu, files, overriding)


def test_no_file_is_silent() -> None:
    assert judge({0: rank(), 1: rank(host="node1")}) == []


@pytest.mark.parametrize(
    "facts",
    [
        {0: rank(SYSTEM), 1: rank(SYSTEM, host="node1")},
        {0: rank(SYSTEM, NCCL_IB_TC="106")},
        {0: rank(ConfFile("/etc/nccl.conf", {"NCCL_DEBUG": "INFO"}), NCCL_DEBUG="WARN")},
        {r: rank(SYSTEM, host=f"node{r // 8}") for r in range(1000)},
    ],
)
def test_equal_settings_are_a_note(facts: dict[int, Facts]) -> None:
    (finding,) = judge(facts)
    assert finding.severity is Severity.INFO
    assert "/etc/nccl.conf" in finding.message
    assert len(finding.message) < 200


@pytest.mark.parametrize(
    ("facts", "words", "fix"),
    [
        (
            {0: rank(SYSTEM), 1: rank(host="node1")},
            ["NCCL_IB_TC=106", "no NCCL_IB_TC"],
            "node1",
        ),
        ({0: rank(SYSTEM, NCCL_IB_TC="0")}, ["NCCL_IB_TC=0", "/etc/nccl.conf"], "one place"),
        (
            {0: rank(ConfFile("/home/ann/.nccl.conf", {"NCCL_IB_TC": "1"}), SYSTEM)},
            ["NCCL_IB_TC=1", "/etc/nccl.conf"],
            "one place",
        ),
        (
            {0: rank(ConfFile("/etc/nccl.conf", {}, useless=("line 1 (NCCL_IB_TC)",)))},
            ["/etc/nccl.conf: line 1 (NCCL_IB_TC)"],
            "NAME=value",
        ),
        (
            {0: rank(ConfFile("/job.conf", {}, trouble="there is no such file"))},
            ["/job.conf", "no such file"],
            "/job.conf",
        ),
    ],
)
def test_contradictions_are_a_warning(facts: dict[int, Facts], words: list[str], fix: str) -> None:
    (finding,) = [each for each in judge(facts) if each.severity is Severity.WARNING]
    assert [word for word in words if word not in finding.message] == []
    assert fix in finding.fix


def test_without_gpus_all_is_a_note() -> None:
    facts = {0: rank(SYSTEM, on_gpu=False), 1: rank(host="node1", on_gpu=False)}
    assert {finding.severity for finding in judge(facts)} == {Severity.INFO}


def test_probe_reads_the_files_of_host_and_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_IB_TC=106\nMY_TOKEN=abc\n")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/.nccl.conf").write_text("NCCL_IB_SL=3\n")
    monkeypatch.setattr(hidden_setting, "ROOT", tmp_path)
    found = probe(context_with(environ={"HOME": "/root", "NCCL_IB_TC": "0", "MY_TOKEN": "def"}))
    assert [each.path for each in found.files] == ["/root/.nccl.conf", "/etc/nccl.conf"]
    assert found.overriding["NCCL_IB_TC"] == "0"
    assert "abc" not in str(found)
    assert "def" not in str(found)


def test_summary() -> None:
    assert summarize({0: rank()}) == "no setting from a file"
    assert summarize({0: rank(SYSTEM)}) == "settings from files: 1"
