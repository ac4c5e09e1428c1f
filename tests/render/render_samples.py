"""Reports to render; ``python tests/render/render_samples.py`` writes the golden files anew.

Look at the difference with ``git diff tests/render/golden`` before you commit it.
"""

from pathlib import Path

from compared_sample import compared
from fault_samples import FAULTS, many_ranks
from sample_parts import STAGES, check, ranks, report, run

from ddpcheck.finding import Confidence, Finding, Location, Recommendation, Severity
from ddpcheck.render import formats, render
from ddpcheck.report import FoldedFact, LastSeen, RankOutcome, RankRecord, Report

__all__ = ["SAMPLES", "check", "crowd", "golden", "ranks", "report", "run"]
GOLDEN = Path(__file__).parent / "golden"
SUFFIXES = {
    "text": "txt",
    "markdown": "md",
    "github": "github",
    "junit": "xml",
    "openmetrics": "prom",
    "sarif": "sarif",
    "trace": "trace.json",
}
STACK = """\
Thread 0x00007f3a2c1fe740 (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 3007 in all_reduce
  File "/home/ada/job/train.py", line 41 in step
  File "/home/ada/job/train.py", line 77 in <module>
"""
CRASH = """\
raised on rank 1: ValueError: 3 buckets, expected 4
Traceback (most recent call last):
  File "gradients/bucket_views.py", line 31, in probe
ValueError: 3 buckets, expected 4
"""


def healthy() -> Report:
    checks = [
        check("launch/world-size-differs", summary="2 ranks, as asked for"),
        check("environment/torch-version-differs", summary="torch 2.13.0 on all ranks"),
        check("network/hostname-is-loopback", summary="node0 is 10.0.0.1"),
        check("devices/gpu-shared", outcome="skip", reason="there is no GPU"),
        check("collectives/all-reduce-values", summary="sum, avg, max and min are exact"),
        check("performance/straggler", "rehearsal", duration_s=12.3, summary="steps of 31-33 ms"),
        check("gradients/not-synced", "rehearsal", outcome="skip", reason="frozen model"),
    ]
    recommendation = {
        "backend": Recommendation("gloo", "there is no GPU"),
        "precision": Recommendation("fp32", "the CPU has no fast bf16"),
        "find_unused_parameters": Recommendation(value=False, reason="all parameters are used"),
    }
    training = {
        "strategy": "ddp",
        "steps": 300,
        "global_batch": 32,
        "precision": "fp32",
        "loss": [[0, 4.1744], [150, 2.2], [300, 1.8321]],
        "tokens_per_s": 12345.6,
        "exposed_comm_share": 0.081,
        "scaling_efficiency": 0.914,
        "final_loss": 1.8321,
        "checkpoint": "checkpoints/minigpt-300",
        "parameters": 10_750_000,
    }
    return report(
        run(world_size=2, hosts=("node0",)),
        ranks(2, 2, "cpu"),
        checks,
        recommendation=recommendation,
        facts={"network/hostname-is-loopback": [FoldedFact((0, 1), {"address": "10.0.0.1"})]},
        training=training,
    )


def failing() -> Report:
    fault = "network/hostname-is-loopback"
    findings = [
        Finding(
            id="environment/torch-version-differs",
            severity=Severity.WARNING,
            confidence=Confidence.MEDIUM,
            title="The ranks run different versions of torch",
            message="ranks 0, 2, 4 have torch 2.13.0, the other ranks 2.12.1.",
            fix="install the same torch everywhere: pip install torch==2.13.0",
            ranks=(0, 2, 4),
            location=Location("train.py", 3, "main"),
        ),
        Finding(
            id=fault,
            title="A host resolves its own name to a loopback address",
            message=(
                "node1 resolves its own name to 127.0.1.1, which gloo would hand to the other host."
            ),
            fix=(
                "export GLOO_SOCKET_IFNAME=eth0 (it routes to 10.0.0.1), "
                "or correct node1 in /etc/hosts."
            ),
            ranks=tuple(range(8, 16)),
        ),
    ]
    records = ranks(16, 8)
    for rank in range(8, 16):
        records[rank] = RankRecord(
            rank=rank,
            local_rank=rank - 8,
            host="node1",
            device=f"cuda:{rank - 8}",
            outcome=RankOutcome.FAILED,
            reason=f"{fault}: A host resolves its own name to a loopback address",
        )
    reason = "network failed on host node1"
    checks = [
        check("launch/world-size-differs", summary="16 ranks, as asked for"),
        check("environment/torch-version-differs", outcome="fail", summary="torch 2.12.1, 2.13.0"),
        check(fault, outcome="fail", summary="127.0.1.1 on 8 of 16 ranks"),
        check("devices/gpu-shared", outcome="skip", reason=reason),
        check("collectives/all-reduce-values", outcome="skip", reason=reason),
        check("gradients/not-synced", "rehearsal", outcome="skip", reason=reason),
    ]
    return report(
        run(world_size=16, hosts=("node0", "node1"), backend="nccl"), records, checks, findings
    )


def incomplete() -> Report:
    last = "collectives/all-reduce-values"
    records = ranks(2, 2)
    records[1] = RankRecord(
        rank=1,
        local_rank=1,
        host="node0",
        device="cuda:1",
        outcome=RankOutcome.STALLED,
        reason=f"no answer for 60 s in {last}",
        last_seen=LastSeen(last, STACK),
    )
    records[2] = RankRecord(rank=2, outcome=RankOutcome.LOST, reason="it never came")
    checks = [
        check("launch/world-size-differs", summary="2 of 3 ranks came"),
        check("environment/torch-version-differs", summary="torch 2.13.0 on all ranks"),
        check(last, outcome="skip", reason="no rank came to it"),
        check("gradients/not-synced", "rehearsal", outcome="skip", reason="rank 1 stalled"),
    ]
    return report(run(world_size=2, requested=3, hosts=("node0",), backend="nccl"), records, checks)


def check_error() -> Report:
    records = ranks(2, 2, "cpu")
    records[1] = RankRecord(
        rank=1,
        local_rank=1,
        host="node0",
        device="cpu",
        outcome=RankOutcome.FAILED,
        reason="gradients/bucket-views raised",
    )
    judge = "its judge raised ZeroDivisionError: division by zero\nTraceback ..."
    checks = [
        check("launch/world-size-differs", summary="2 ranks, as asked for"),
        check("collectives/all-reduce-values", outcome="error", reason=judge),
        check("gradients/bucket-views", "rehearsal", outcome="error", reason=CRASH),
    ]
    return report(run(world_size=2, hosts=("node0",)), records, checks)


def hostile() -> Report:
    evil = "<script>alert(1)</script> | `rm -rf` ``` \x1b[2J\u202e **b** @octocat $x$ é \ud800"
    findings = [
        Finding(
            id="data/epoch-not-set",
            severity=severity,
            title=evil,
            message=f"# no heading\n---\n1. no list\n{evil}\n" + "x" * 300,
            fix=evil + " " + "very " * 50,
            ranks=tuple(range(0, 64, 2)),
            location=Location("a`b|c <d>.py", 7, "f\ng"),
        )
        for severity in Severity
    ]
    records = ranks(2, 2, "cpu")
    records[0] = RankRecord(
        rank=0,
        host="ip-10-0-1-23.eu-central-1.compute.internal|`<b>\x1b[31m",
        device="cuda:zero",
        outcome=RankOutcome.LOST,
        reason=evil,
        last_seen=LastSeen("data/epoch-not-set", f"```\n</details>\n{evil}\n" + "y" * 300),
    )
    checks = [
        check(f"{stage}/{'long-' * 12}name", stage, outcome="fail", summary=evil)
        for stage in STAGES
    ]
    return report(
        run(world_size=2, hosts=(evil,), command=evil, versions={}),
        records,
        [*checks, check("data/epoch-not-set", "rehearsal", outcome="fail")],
        findings,
        recommendation={evil: Recommendation(evil, evil)},
        training={"strategy": evil, "loss": [[1]], "tokens_per_s": "fast", "checkpoint": 7},
    )


SAMPLES = {
    "healthy": healthy,
    "failing": failing,
    "incomplete": incomplete,
    "check_error": check_error,
    "hostile": hostile,
    "compared": compared,
    **FAULTS,
}
# Of 4096 ranks, the formats that tell of each rank have no golden files: they are large.
SAMPLES_OF_MANY = {"many_ranks": many_ranks}
LARGE_OF_MANY = {"json", "trace"}
# Its plots differ with the version of the library that draws them.
WITHOUT_GOLDEN = {"html"}


def sample(name: str) -> Report:
    """Return a sample by its name."""
    return {**SAMPLES, **SAMPLES_OF_MANY}[name]()


def golden(name: str, format_name: str) -> Path:
    """Return the file that holds what the sample ``name`` must look like."""
    return GOLDEN / f"{name}.{SUFFIXES.get(format_name, format_name)}"


def golden_pairs() -> list[tuple[str, str]]:
    """Return each sample and format of which there is a golden file."""
    plain = [each for each in formats() if each not in WITHOUT_GOLDEN]
    small = [each for each in plain if each not in LARGE_OF_MANY]
    return [
        *((name, each) for name in SAMPLES for each in plain),
        *((name, each) for name in SAMPLES_OF_MANY for each in small),
    ]


def crowd(world_size: int, findings: int = 0) -> Report:
    """Return a report in which every third rank stalled, each on a host of its own."""
    records = ranks(world_size, 8)
    for rank in range(0, world_size, 3):
        records[rank] = RankRecord(
            rank=rank,
            host=f"ip-10-0-{rank}-7.example.internal",
            device=f"cuda:{rank % 8}",
            outcome=RankOutcome.STALLED,
            reason=f"no answer for {rank} s",
            last_seen=LastSeen("collectives/all-reduce-values", STACK * (1 + rank % 50)),
        )
    found = [
        Finding(
            id=f"{STAGES[number % 6]}/fault",
            title=f"Fault <{number}> " + "word " * 30,
            message="a | b @c `d` " * 80,
            fix="do it " * 100,
            ranks=tuple(range(number % 2, world_size, 2)),
            severity=tuple(Severity)[number % 3],
        )
        for number in range(findings)
    ]
    checks = [check(f"{stage}/fault", stage, outcome="fail") for stage in STAGES]
    hosts = tuple(dict.fromkeys(record.host for record in records.values()))
    return report(run(world_size=world_size, hosts=hosts, backend="nccl"), records, checks, found)


def write_golden_files() -> None:
    """Write what every sample looks like now, in every format."""
    GOLDEN.mkdir(exist_ok=True)
    for name, each in golden_pairs():
        golden(name, each).write_bytes(render(sample(name), each).encode())


if __name__ == "__main__":
    write_golden_files()
