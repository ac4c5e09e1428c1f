"""Metrics for Prometheus: write them where node_exporter's textfile collector looks.

The text is valid both as OpenMetrics 1.0 and in Prometheus' own text format 0.0.4, that the
collector reads. So a label's value carries what OpenMetrics would have as an info or a state set.
Seconds are seconds, bytes bytes; bus bandwidth is bytes a second, as nccl-tests defines it. No
metric has a label for a rank or a host: there are as many samples for 4096 ranks as for two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from math import isfinite
from typing import NamedTuple, TypeAlias

from ddpcheck.change import Course
from ddpcheck.finding import Severity
from ddpcheck.render.measured import BYTES_A_GB, section, slowest_speeds, step_splits
from ddpcheck.render.words import clipped, one_line
from ddpcheck.report import RankOutcome, Report

LONGEST_LABEL = 200
# The report's own names have no place for the units that Prometheus wants at their end.
TRAINING = {
    "tokens_per_s": ("tokens_per_second", "Tokens a second of the reference training."),
    "final_loss": ("loss", "Loss at the end of the reference training."),
    "scaling_efficiency": ("scaling_efficiency_ratio", "Its speed by that of its ranks alone."),
}
Labels: TypeAlias = Mapping[str, str]


class Family(NamedTuple):
    """One metric, always a gauge: its name, help, and samples by their labels."""

    name: str
    text: str
    samples: Iterable[tuple[Labels, float]]


def render(report: Report, _path: str = "") -> str:
    """Return the report's metrics in the text format of Prometheus, ending with ``# EOF``."""
    lines = [line for family in _families(report) for line in _lines(family)]
    return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _families(report: Report) -> Iterator[Family]:
    yield from _of_run(report)
    yield from _of_findings(report)
    yield from _of_checks(report)
    yield from _of_changes(report)
    yield from _of_speed(report)
    for key, (name, text) in TRAINING.items():
        value = section(report.training, key)
        yield Family(f"ddpcheck_training_{name}", text, [] if value is None else [({}, value)])


def _of_run(report: Report) -> Iterator[Family]:
    run = report.run
    about = {"verdict": report.verdict.value, "run": run.id, "backend": run.backend}
    about |= {"launcher": run.launcher, "profile": run.profile, "target": run.target}
    yield Family("ddpcheck_verdict_info", "What the newest run ended with.", [(about, 1)])
    began = _unix_time(run.started_at)
    told: list[tuple[Labels, float]] = [] if began is None else [({}, began)]
    yield Family("ddpcheck_run_timestamp_seconds", "When the run began, in Unix time.", told)
    yield Family("ddpcheck_run_duration_seconds", "How long it took.", [({}, run.duration_s)])
    yield Family("ddpcheck_hosts", "Hosts that ranks ran on.", [({}, len(run.hosts))])
    asked = run.requested_world_size
    yield Family("ddpcheck_ranks_requested", "Ranks that were asked for.", [({}, asked)])
    outcomes = Counter(record.outcome for record in report.ranks)
    by_outcome = [({"outcome": each.value}, outcomes[each]) for each in RankOutcome]
    yield Family("ddpcheck_ranks", "Ranks by how they came through.", by_outcome)


def _of_findings(report: Report) -> Iterator[Family]:
    by_severity = [({"severity": each.value}, report.count(each)) for each in Severity]
    yield Family("ddpcheck_findings_by_severity", "Findings of each severity.", by_severity)
    found = Counter((finding.severity.value, finding.id) for finding in report.findings)
    by_check = [({"severity": each, "check": name}, n) for (each, name), n in found.items()]
    yield Family("ddpcheck_findings", "Findings of each severity and check.", by_check)


def _of_changes(report: Report) -> Iterator[Family]:
    told = report.changes
    by_course = [({"course": each.value}, told.count(each)) for each in Course] if told else []
    yield Family("ddpcheck_changes", "What changed against the baseline.", by_course)


def _of_checks(report: Report) -> Iterator[Family]:
    outcomes = [({**_check(c.id, c.stage), "outcome": c.outcome.value}, 1) for c in report.checks]
    yield Family("ddpcheck_check_outcome", "How a check ended: pass, fail, skip, error.", outcomes)
    took = [(_check(each.id, each.stage), each.duration_s) for each in report.checks]
    text = "How long a check took on its slowest rank."
    yield Family("ddpcheck_check_duration_seconds", text, took)


def _of_speed(report: Report) -> Iterator[Family]:
    speeds = slowest_speeds(report)
    labels = [
        {"collective": own.kind, "memory": own.memory, "size_bytes": str(own.size_bytes)}
        for own, _ in speeds
    ]
    timed = [(label, own.median_s) for label, (own, _) in zip(labels, speeds, strict=True)]
    text = "Median time of a collective on its slowest rank."
    yield Family("ddpcheck_collective_duration_seconds", text, timed)
    bandwidths = [(label, gb * BYTES_A_GB) for label, (_, gb) in zip(labels, speeds, strict=True)]
    text = "Bus bandwidth of a collective on its slowest rank, as nccl-tests defines it."
    yield Family("ddpcheck_collective_bus_bandwidth_bytes_per_second", text, bandwidths)
    steps = [split.step_s for split in step_splits(report).values()]
    slow: list[tuple[Labels, float]] = [({}, max(steps))] if steps else []
    yield Family("ddpcheck_step_duration_seconds", "The slowest rank's training step.", slow)


def _check(name: str, stage: str) -> dict[str, str]:
    return {"check": name, "stage": stage}


def _unix_time(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _lines(family: Family) -> Iterator[str]:
    # Two samples with the same labels, as clipped names may have, would make the text invalid.
    samples = {_labels(labels): value for labels, value in family.samples if isfinite(value)}
    if not samples:
        return
    yield f"# HELP {family.name} {family.text}"
    yield f"# TYPE {family.name} gauge"
    yield from (f"{family.name}{labels} {value!r}" for labels, value in samples.items())


def _labels(labels: Labels) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(value: str) -> str:
    text = one_line(clipped(value, LONGEST_LABEL))
    return text.replace("\\", "\\\\").replace('"', '\\"')
