"""Agents of torchrun that fall silent, leave and come again, under ``ddpcheck watch``."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from agents import Job, elastic_job

from ddpcheck.finding import Finding, Severity
from ddpcheck.report import Report, Verdict

SILENT, UNCOUNTED = "ranks/silent-agent", "launch/uncounted-restart"
# Where agents share their store with the ranks, torch 2.13 lets ranks that are started again read what
# those before them left there, and an agent that comes later wait in vain for its address.
OWN_STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
# Trains until there is a file "enough", or for so many steps where that is less; FAILS is the start
# in which rank 1 raises.
SCRIPT = """
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

STEPS, FAILS = int(os.environ.get("STEPS", "1000000")), os.environ.get("FAILS")
dist.init_process_group("gloo")
rank, start = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
draws = torch.Generator().manual_seed(rank)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, 2, generator=draws)).sum().backward()
    optimizer.step()
    if step == 3:
        sys.stderr.write(f"trains in start {start}\\n")
        if FAILS == start and rank == 1:
            raise OSError("the file system went away")
    enough = torch.tensor(float(Path("enough").exists()))
    dist.all_reduce(enough)
    if enough > 0:
        break
"""
TRAINS, TOLD = "trains in start", "ddpcheck: torchrun's agent"


def found(report: Report, check: str) -> list[Finding]:
    return [each for each in report.findings if each.id == check]


def enough(job: Job) -> None:
    (job.folder / "enough").touch()


@pytest.mark.parametrize(
    ("by", "words"),
    [(signal.SIGSTOP, "is stopped by a signal"), (signal.SIGKILL, "its ranks live on")],
    ids=["stopped", "killed"],
)
def test_an_agent_that_is_silent_is_named_while_its_ranks_train(
    by: signal.Signals, words: str, tmp_path: Path
) -> None:
    with elastic_job(tmp_path, SCRIPT) as job:
        job.wait_for(TRAINS, 2)
        job.agents[1].send_signal(by)
        job.wait_for(TOLD)
        assert not list(tmp_path.glob("reports/*/report.json")), "it is told of before the report"
        enough(job)
        (report,) = job.wait_for_reports(1)
        told = job.output()
    (finding,) = found(report, SILENT)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert f"(pid {job.agents[1].pid})" in finding.message
    assert words in finding.message
    assert words in told
    assert told.count(TOLD) == 1
    assert report.verdict is Verdict.WARN


def test_the_verdict_comes_where_the_agent_that_hosts_the_store_is_stopped(tmp_path: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, "--deadline", "3") as job:
        job.wait_for(TRAINS, 2)
        job.agents[0].send_signal(signal.SIGSTOP)
        job.wait_for(TOLD)
        enough(job)
        (report,) = job.wait_for_reports(1)
        job.wait_for("does not answer any more", 2)
        job.wait_for("verdict: INCOMPLETE")
    (finding,) = found(report, SILENT)
    assert finding.ranks == (0,)
    assert f"kill -CONT {job.agents[0].pid}" in finding.fix
    assert not [each for each in report.findings if each.severity is Severity.ERROR]


def test_a_stopped_agent_that_goes_on_is_not_silent(tmp_path: Path) -> None:
    with elastic_job(tmp_path, SCRIPT) as job:
        job.wait_for(TRAINS, 2)
        job.agents[1].send_signal(signal.SIGSTOP)
        job.agents[1].send_signal(signal.SIGCONT)
        enough(job)
        (report,) = job.wait_for_reports(1)
        assert [agent.wait() for agent in job.agents] == [0, 0], job.output()
        assert TOLD not in job.output()
    assert report.findings == []


@pytest.mark.thorough
def test_ranks_that_are_started_again_after_a_failure_are_no_matter_of_agents(
    tmp_path: Path,
) -> None:
    with elastic_job(tmp_path, SCRIPT, STEPS="20", FAILS="0", **OWN_STORES) as job:
        first, second = job.wait_for_reports(2)
        assert [agent.wait() for agent in job.agents] == [0, 0], job.output()
        assert TOLD not in job.output()
    assert "the file system went away" in str(first.findings)
    for report in (first, second):
        assert found(report, SILENT) == found(report, UNCOUNTED) == []
    assert second.findings == []
    assert second.run.world_size == 2


@pytest.mark.thorough
def test_an_agent_that_leaves_leaves_nobody_silent(tmp_path: Path) -> None:
    with elastic_job(tmp_path, SCRIPT) as job:
        job.wait_for(TRAINS, 2)
        job.agents[1].terminate()
        job.wait_for(TRAINS, 3)
        enough(job)
        first, second = job.wait_for_reports(2)
        assert job.agents[0].wait() == 0, job.output()
        assert TOLD not in job.output()
    for report in (first, second):
        assert found(report, SILENT) == found(report, UNCOUNTED) == []
    assert second.run.world_size == 1


def test_an_agent_that_takes_anothers_place_is_told_with_what_each_counts(tmp_path: Path) -> None:
    with elastic_job(tmp_path, SCRIPT, **OWN_STORES) as job:
        job.wait_for(TRAINS, 2)
        job.agents[1].terminate()
        job.agents[1].wait()
        job.start()
        job.wait_for(TRAINS, 4)
        enough(job)
        first, second = job.wait_for_reports(2)
    assert found(first, UNCOUNTED) == []
    (finding,) = found(second, UNCOUNTED)
    assert (finding.severity, finding.ranks) == (Severity.INFO, (0, 1))
    assert finding.title.endswith(f"(pid {job.agents[0].pid}) only")
    assert f"(pid {job.agents[0].pid}) 1 of 3" in finding.message
    assert f"(pid {job.agents[2].pid}) 0 of 3" in finding.message
