"""The gate: whether a report allows the training run that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from ddpcheck.report import Report, Verdict

OVERRIDE = "--force trains all the same"


def refusal(report: Report, world_size: int, hosts: Sequence[str]) -> str:
    """Return why the report does not allow training on these ranks and hosts, or ''."""
    reason = _verdict_against(report) or _other_machine(report, world_size, hosts)
    return f"{reason}; {OVERRIDE}" if reason else ""


def _verdict_against(report: Report) -> str:
    if report.verdict not in (Verdict.FAIL, Verdict.INCOMPLETE):
        return ""
    return (
        f"report {report.run.id} has the verdict {report.verdict.upper()}: "
        "fix what it found and run 'ddpcheck run' again"
    )


def _other_machine(report: Report, world_size: int, hosts: Sequence[str]) -> str:
    again = "run 'ddpcheck run' here first"
    if report.run.world_size != world_size:
        return (
            f"report {report.run.id} speaks for {report.run.world_size} ranks, "
            f"but {world_size} are to train: {again}"
        )
    checked, present = set(report.run.hosts), set(hosts)
    if checked != present:
        return (
            f"report {report.run.id} speaks for {_listed(checked)}, "
            f"but {_listed(present)} are to train: {again}"
        )
    return ""


def _listed(hosts: set[str]) -> str:
    return "hosts " + ", ".join(sorted(hosts))
