import pytest

from ddpcheck.report import Report, Run, Verdict
from ddpcheck.train.gate import refusal


def report(verdict: Verdict = Verdict.PASS) -> Report:
    run = Run(
        id="ddpcheck-1",
        command="ddpcheck run",
        launcher="torchrun",
        backend="gloo",
        profile="quick",
        requested_world_size=4,
        world_size=4,
        hosts=("node0", "node1"),
        started_at="2026-01-01T00:00:00Z",
        duration_s=1.0,
        versions={},
    )
    return Report(
        verdict=verdict, run=run, ranks=(), checks=(), findings=(), recommendation={}, facts={}
    )


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.WARN])
def test_a_good_report_for_these_ranks_and_hosts_opens(verdict: Verdict) -> None:
    assert not refusal(report(verdict), 4, ["node1", "node0", "node0", "node1"])


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.INCOMPLETE])
def test_a_bad_verdict_refuses(verdict: Verdict) -> None:
    assert verdict.upper() in refusal(report(verdict), 4, ["node0", "node1"])


def test_another_world_size_refuses() -> None:
    assert "speaks for 4 ranks, but 2" in refusal(report(), 2, ["node0", "node1"])


@pytest.mark.parametrize("hosts", [["node0"], ["node0", "node2"], ["node0", "node1", "node2"]])
def test_other_hosts_refuse(hosts: list[str]) -> None:
    assert f"hosts {', '.join(hosts)} are to train" in refusal(report(), 4, hosts)


def test_a_refusal_is_one_line_that_names_the_way_out() -> None:
    text = refusal(report(Verdict.FAIL), 2, [])
    assert "\n" not in text
    assert "--force" in text
