"""Run ``ddpcheck train`` on real local ranks, with something planted in each of them."""

import json
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddpcheck.finding import Recommendation
from ddpcheck.launch.local import launch_local
from ddpcheck.measures.words import as_options
from ddpcheck.ranks import train_in_rank
from ddpcheck.report import Report, Run, Verdict, write_report
from ddpcheck.settings import TrainSettings

Plant = Callable[[], None]


def nothing() -> None:
    """Plant nothing."""


@dataclass(frozen=True)
class Verified:
    """How the command ended: exit codes of the ranks, and rows of ``training.parity``."""

    exit_codes: set[int]
    rows: list[dict[str, Any]]

    def results(self) -> dict[str, str]:
        """Return the result of each row, by its name; of others than passes, what says why."""
        return results(self.rows)

    def broken(self) -> tuple[str, int, str]:
        """Return kind, step and name of what broke first in the one row."""
        (row,) = self.rows
        assert row["result"] == "fail"
        broken = row["broken"]
        return broken["kind"], broken["step"], broken["name"]

    def suspect(self) -> str:
        """Return the name of the parameter whose gradient is farthest off in that step, or ''."""
        (row,) = self.rows
        return str((row["suspect"] or {}).get("name", ""))


@dataclass(frozen=True)
class Planted:
    """A rank's settings, and what is planted in it before it trains."""

    settings: TrainSettings
    plant: Plant


def verify(folder: Path, strategy: str, plant: Plant = nothing, **changes: Any) -> Verified:
    """Compare a strategy, or all, with one process, on local gloo ranks: two if not told."""
    codes, training = trained(folder, strategy, plant, verify=True, **changes)
    return Verified(codes, training.get("parity", []))


def trained(
    folder: Path, strategy: str, plant: Plant = nothing, **changes: Any
) -> tuple[set[int], dict[str, Any]]:
    """Train on local gloo ranks; returns their exit codes and what the report has of it."""
    world_size = changes.pop("world_size", 2)
    write_sample(folder)
    short: dict[str, Any] = {"global_batch": 8, "verify_steps": 3, "deadline_s": 60.0}
    settings = TrainSettings(
        **{**short, **changes}, report=str(folder), force=True, strategy=strategy, backend="gloo"
    )
    ending = launch_local(planted_rank, Planted(settings, plant), world_size)
    report = json.loads((folder / "report.json").read_text())
    return {each.exit_code for each in ending.departures}, report["training"] or {}


def results(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the result of each row, by its name; of others than passes, what says why."""
    return {_name(row): _result(row) for row in rows}


def scale(folder: Path, strategy: str, world_size: int = 2) -> dict[str, Any]:
    """Measure how strategies scale, on local gloo ranks; returns ``training.scaling``."""
    write_sample(folder)
    settings = TrainSettings(
        report=str(folder),
        force=True,
        strategy=strategy,
        scaling=True,
        global_batch=4,
        backend="gloo",
        deadline_s=60.0,
    )
    ending = launch_local(planted_rank, Planted(settings, nothing), world_size)
    assert {each.exit_code for each in ending.departures} == {0}
    told: dict[str, Any] = json.loads((folder / "report.json").read_text())["training"]["scaling"]
    return told


def _name(row: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (row["strategy"], row["mesh"], as_options(row["options"]))))


def _result(row: Mapping[str, Any]) -> str:
    return str(row.get("broken") or row.get("reason") or row["result"])


def train(
    folder: Path, strategy: str = "ddp", plant: Plant = nothing, **changes: Any
) -> dict[str, Any]:
    """Train twelve steps, with a checkpoint every four; return what the report has of it."""
    codes, training = trained(
        folder, strategy, plant, **{"steps": 12, "checkpoint_every": 4, **changes}
    )
    assert codes == {0}
    return training


def planted_rank(planted: Planted) -> int:
    """Be one rank of the training."""
    planted.plant()
    return train_in_rank(planted.settings)


def write_sample(folder: Path, verdict: Verdict = Verdict.PASS) -> None:
    """Write a report of two ranks on this host."""
    run = Run(
        id="ddpcheck-1",
        command="ddpcheck run",
        launcher="torchrun",
        backend="gloo",
        profile="quick",
        requested_world_size=2,
        world_size=2,
        hosts=(socket.gethostname(),),
        started_at="2026-01-01T00:00:00Z",
        duration_s=1.0,
        versions={},
    )
    advice = {
        "backend": Recommendation("gloo", "measured"),
        "gradient_as_bucket_view": Recommendation(value=True, reason="measured"),
    }
    report = Report(
        verdict=verdict, run=run, ranks=(), checks=(), findings=(), recommendation=advice, facts={}
    )
    write_report(report, folder)
