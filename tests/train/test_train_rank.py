"""The whole training run, on two real gloo ranks under torchrun."""

import dataclasses
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from lone_rank import be_the_only_rank
from verified import write_sample

from ddpcheck.report import Verdict, read_report
from ddpcheck.settings import TrainSettings
from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.rank import train_rank

SCRIPT = """
import json, sys
from ddpcheck.settings import TrainSettings
from ddpcheck.train.rank import train_rank
sys.exit(train_rank(TrainSettings(**json.loads(sys.argv[1]))))
"""


def two_ranks(folder: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    asked = json.dumps({"report": str(folder), "deadline_s": 60.0, **settings})
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [*launch, str(script), asked], capture_output=True, text=True, check=False, timeout=120
    )


def test_two_ranks_train_and_tell(tmp_path: Path) -> None:
    write_sample(tmp_path)
    ended = two_ranks(tmp_path, steps=12, global_batch=8)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("training: loss 5.")
    assert ended.stderr.count("12/12") == 1
    training = read_report(tmp_path).training
    assert training is not None
    losses = [loss for _, loss in training["loss"]]
    assert losses[0] == pytest.approx(math.log(256), abs=0.2)
    assert training["final_loss"] == losses[-1] < losses[0] - 0.5
    assert (training["strategy"], training["mesh"]) == ("ddp", "dp=2")
    assert (training["steps"], training["global_batch"]) == (12, 8)
    assert 0 <= training["exposed_comm_share"] <= 1
    assert training["scaling_efficiency"] == pytest.approx(
        training["tokens_per_s"] / 2 / training["single_rank_tokens_per_s"]
    )
    consolidated = Path(training["checkpoint"], "consolidated.pt")
    saved = torch.load(consolidated, map_location="cpu", weights_only=True)
    model = MiniGPT(MiniGPTConfig())
    model.load_state_dict(saved["model"])
    assert (saved["step"], saved["epoch"]) == (12, 0)
    assert training["parameters"] == sum(each.numel() for each in model.parameters())


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make this process the only rank; returns the folder of its report."""
    be_the_only_rank(monkeypatch, tmp_path)
    return tmp_path


def test_a_report_for_another_world_size_is_refused_in_one_line(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(alone)
    assert train_rank(TrainSettings(report=str(alone), steps=1)) == 1
    told = capsys.readouterr().err
    assert told.startswith("ddpcheck: report ddpcheck-1 speaks for 2 ranks, but 1")
    assert told.count("\n") == 1
    assert read_report(alone).training is None


def test_force_trains_all_the_same(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sample(alone, Verdict.FAIL)
    settings = TrainSettings(
        report=str(alone), force=True, steps=2, global_batch=2, checkpoint_dir=str(alone / "new")
    )
    assert train_rank(settings) == 0
    assert "in 2 steps" in capsys.readouterr().out
    assert (alone / "new" / "step-00000002" / "consolidated.pt").is_file()
    assert not dist.is_initialized()


def test_options_of_a_strategy_are_not_for_the_one_rank_that_is_timed_alone(alone: Path) -> None:
    write_sample(alone)
    options = (("static_graph", "true"),)
    assert (
        train_rank(
            TrainSettings(report=str(alone), force=True, steps=2, global_batch=2, options=options)
        )
        == 0
    )


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (TrainSettings(report="missing"), "there is no"),
        (TrainSettings(steps=0), "--steps 0"),
        (TrainSettings(data="missing"), "rank 0 on .*: cannot read the training text missing"),
        (TrainSettings(global_batch=0), "--global-batch 0"),
        (TrainSettings(global_batch=100_000), "fewer than the batch of 100000"),
        (TrainSettings(strategy="all"), "--strategy all is for --verify"),
        (TrainSettings(verify=True, scaling=True), "give one of them at a time"),
        (TrainSettings(verify=True, resume=True), "--verify trains .*: leave out --resume"),
        (TrainSettings(scaling=True, resume=True), "--scaling trains .*: leave out --resume"),
    ],
)
def test_what_cannot_be_trained_is_a_usage_error(
    alone: Path, capsys: pytest.CaptureFixture[str], settings: TrainSettings, told: str
) -> None:
    write_sample(alone)
    report = settings.report or str(alone)
    assert train_rank(dataclasses.replace(settings, report=report, force=True)) == 2
    assert re.search(told, capsys.readouterr().err)


def test_a_missing_variable_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert train_rank(TrainSettings()) == 2
    assert "WORLD_SIZE" in capsys.readouterr().err
