"""One line a stage on stderr, while the run goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ddpcheck.engine.judging import Judgement
from ddpcheck.engine.plan import Step
from ddpcheck.finding import Severity
from ddpcheck.measures.agents import LEFT_ALONE, fix_of, silence_of
from ddpcheck.measures.moments import Apart
from ddpcheck.measures.testimony import Agent
from ddpcheck.measures.words import spans


def show_apart(apart: Apart) -> None:
    """Write that replicas differ, while the script that trains them still runs."""
    sys.stderr.write(
        f"ddpcheck: the replicas of the model differ from step {apart.step} on (rank "
        f"{spans(apart.ranks)}), seen in step {apart.seen_in}; the report will have more\n"
    )
    sys.stderr.flush()


def show_wait(told: str) -> None:
    """Write that ranks of a script wait for others, while it still runs."""
    sys.stderr.write(f"ddpcheck: {told}\n")
    sys.stderr.flush()


def show_silent_agent(agent: Agent) -> None:
    """Write that nobody looks after the ranks of this host, while they still run."""
    sys.stderr.write(f"ddpcheck: {silence_of(agent)}: {LEFT_ALONE}; {fix_of(agent)}\n")
    sys.stderr.flush()


def show_progress(
    step: Step, judged: Sequence[Judgement], told: int, asked: int, took_s: float
) -> None:
    """Write how a stage went: how many ranks told of it, for how long, and what was found."""
    findings = [finding for judgement in judged for finding in judgement.findings]
    counts = [
        f"{number} {severity.value}{'s' * (number > 1)}"
        for severity in (Severity.ERROR, Severity.WARNING)
        if (number := sum(finding.severity is severity for finding in findings))
    ]
    line = f"  {step.stage.value:<12} {told}/{asked}  {took_s:.1f} s  {', '.join(counts)}"
    sys.stderr.write(line.rstrip() + "\n")
    sys.stderr.flush()


def show_stop(steps: int) -> None:
    """Say that a watched script ends here, though it would go on."""
    sys.stderr.write(
        f"ddpcheck: the script was watched for {steps} optimizer steps and is stopped here: "
        "--steps 0 watches it to its end, --then continue lets it go on\n"
    )
    sys.stderr.flush()
