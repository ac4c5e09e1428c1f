"""Sample reports of one fault each: a dead rank, a slow link, diverged gradients, three among 4096."""

from typing import Any

from sample_parts import check, ranks, report, run

from ddpcheck.finding import Confidence, Finding, Location, Severity
from ddpcheck.report import FoldedFact, LastSeen, RankOutcome, RankRecord, Report

VALUES = "collectives/wrong-values"
SPEED = "collectives/low-bandwidth"
LINK = "collectives/slow-link"
LATE = "collectives/late-rank"
VERSIONS = "environment/version-mismatch"
REPLICAS = "gradients/replicas-differ"
SPLIT = "performance/exposed-communication"
STUCK = """\
Thread 0x00007f1b5c2d7000 (most recent call first):
  File "/opt/torch/distributed/distributed_c10d.py", line 3007 in all_reduce
  File "/home/ada/job/train.py", line 41 in step
"""
MANY = 4096
A_HOST = 8
# The odd ones of 4096: an old torch on host 17's ranks, a late rank, a dead one.
ODD_HOST, STRAGGLER, LOST = 17, 1234, 3210


def one_rank_dead() -> Report:
    """16 ranks on 2 hosts; rank 11 was killed while the others waited for it."""
    reason = f"died of SIGKILL in {VALUES}"
    records = ranks(16, 8)
    records[11] = _of(records[11], RankOutcome.LOST, reason, LastSeen(VALUES))
    found = Finding(
        id="ranks/lost",
        title="1 of 16 ranks were lost in the run",
        message=f"rank 11 {reason}",
        fix="look for the out-of-memory killer in dmesg, and for the scheduler's memory limit",
        ranks=(11,),
        evidence={"check": VALUES, "ended_by": {"11": "SIGKILL"}, "stack": STUCK},
    )
    ended = "the run ended in stage collectives"
    checks = [
        check("launch/cannot-meet", summary="16 ranks met in 0.4 s"),
        check(VERSIONS, summary="Python 3.11, torch 2.13.0"),
        check(VALUES, outcome="skip", reason="no rank came to its end"),
        check(REPLICAS, "rehearsal", outcome="skip", reason=ended),
        check("ranks/lost", outcome="fail"),
        check("ranks/stalled"),
    ]
    return report(
        run(world_size=16, hosts=("node0", "node1"), backend="nccl"), records, checks, [found]
    )


def slow_link() -> Report:
    """16 ranks on 2 hosts; whatever goes over rank 5's link is slow, which is a warning."""
    found = Finding(
        id=LINK,
        title="rank 5 (node0) exchanges data more slowly than others",
        message="ranks 5-6: 11.2 GB/s, 4-5: 11.4 GB/s; others of their kind 46.1, limit 50% of it",
        fix="look at the links of rank 5 on node0: nvidia-smi nvlink -s, nvidia-smi topo -m",
        ranks=(5,),
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        evidence={"gbps": {"5-6": 11.2, "4-5": 11.4}, "usual_gbps": 46.1},
    )
    summary = "120 pairs exchange 46.1 GB/s each way in the median, ranks 5 and 6 11.2"
    checks = [
        check(VERSIONS, summary="Python 3.11, torch 2.13.0"),
        check(SPEED, summary="all_reduce of 1 KiB 41 us, of 64 MiB 22.3 GB/s bus bandwidth"),
        check(LINK, outcome="fail", summary=summary),
        check(SPLIT, "rehearsal", duration_s=1.25, summary="step 38.6 ms: exposed comm 41%"),
        check("ranks/lost", summary="16 ranks came to the end"),
    ]
    facts = {
        SPEED: [FoldedFact((rank,), _speeds(16, 1 + rank / 1000)) for rank in range(16)],
        SPLIT: [FoldedFact(tuple(range(16)), _split(0.0386, 0.0158))],
    }
    of_run = run(world_size=16, hosts=("node0", "node1"), backend="nccl")
    return report(of_run, ranks(16, 8), checks, [found], facts=facts)


def diverged() -> Report:
    """4 CPU ranks; rank 2 steps at another line than the others, and its replica goes astray."""
    found = Finding(
        id=REPLICAS,
        title="the replicas of rank 2 differ from those of the others",
        message="after step 3, layers.0.weight of rank 2 is 0.0123 apart, limit 0; before, equal",
        fix="let every parameter's gradient go through DistributedDataParallel: train.py, line 57",
        ranks=(2,),
        location=Location("train.py", 57, "step"),
        evidence={"parameter": "layers.0.weight", "step": 3, "apart": 0.0123, "nan": float("nan")},
    )
    records = ranks(4, 4, "cpu")
    records[2] = _of(records[2], RankOutcome.FAILED, f"{REPLICAS}: {found.title}")
    checks = [
        check(VERSIONS, summary="Python 3.11, torch 2.13.0"),
        check("gradients/not-finite", "watch", summary="12 steps with a finite loss"),
        check(REPLICAS, "watch", outcome="fail", summary="29 parameters compared on 4 ranks"),
        check("ranks/lost", summary="4 ranks came to the end"),
    ]
    return report(
        run(world_size=4, hosts=("node0",), command="ddpcheck watch train.py", profile=""),
        records,
        checks,
        [found],
        facts={"gradients/not-finite": [FoldedFact((0, 1, 2, 3), {"steps": 12, "loss": "nan"})]},
    )


def many_ranks() -> Report:
    """4096 ranks on 512 hosts: one late, one lost, the 8 of one host with an older torch."""
    odd = tuple(range(ODD_HOST * A_HOST, (ODD_HOST + 1) * A_HOST))
    records = ranks(MANY, A_HOST)
    for rank in odd:
        records[rank] = _of(records[rank], RankOutcome.FAILED, f"{VERSIONS}: another torch")
    records[LOST] = _of(records[LOST], RankOutcome.LOST, "died of SIGKILL", LastSeen(SPLIT))
    checks = [
        check(VERSIONS, outcome="fail", summary="Python 3.11"),
        check(LATE, outcome="fail", summary=f"the others waited 0.9 s for rank {STRAGGLER}"),
        check(SPEED, summary="all_reduce of 1 KiB 310 us, of 64 MiB 21.7 GB/s bus bandwidth"),
        check(SPLIT, "rehearsal", outcome="skip", reason="the run ended in stage rehearsal"),
        check("ranks/lost", outcome="fail"),
    ]
    rest = tuple(rank for rank in range(MANY) if rank not in odd)
    facts = {
        VERSIONS: [
            FoldedFact(rest, {"host": "", "versions": {"torch": "2.13.0"}}),
            FoldedFact(odd, {"host": "", "versions": {"torch": "2.12.1"}}),
        ],
        SPEED: [FoldedFact((0,), _speeds(MANY, 1)), FoldedFact(tuple(range(1, MANY)), {})],
    }
    hosts = tuple(dict.fromkeys(record.host for record in records.values()))
    of_run = run(world_size=MANY, hosts=hosts, backend="nccl", launcher="slurm", duration_s=31.4)
    return report(of_run, records, checks, _three_faults(odd), facts=facts)


def _three_faults(odd: tuple[int, ...]) -> list[Finding]:
    return [
        Finding(
            id=VERSIONS,
            title="not the same on all ranks: torch",
            message="torch: 2.13.0 on 4088 ranks, 2.12.1 on rank 136-143",
            fix=f"install the same environment everywhere; look first at node{ODD_HOST}",
            ranks=odd,
        ),
        Finding(
            id="ranks/lost",
            title="1 of 4096 ranks were lost in the run",
            message=f"rank {LOST} died of SIGKILL in {SPLIT}",
            fix="look for the out-of-memory killer in dmesg",
            ranks=(LOST,),
        ),
        Finding(
            id=LATE,
            title=f"rank {STRAGGLER} comes late to every collective",
            message=f"the others waited 0.9 s in 30 turns for rank {STRAGGLER}, limit 0.1 s",
            fix=f"see what else runs on node{STRAGGLER // A_HOST}",
            ranks=(STRAGGLER,),
            severity=Severity.WARNING,
        ),
    ]


def _of(
    record: RankRecord, outcome: RankOutcome, reason: str, last_seen: LastSeen | None = None
) -> RankRecord:
    return RankRecord(
        rank=record.rank,
        local_rank=record.local_rank,
        host=record.host,
        device=record.device,
        outcome=outcome,
        reason=reason,
        last_seen=last_seen,
    )


def _speeds(world_size: int, slower: float) -> dict[str, Any]:
    """Return what a rank of collectives/low-bandwidth tells of two sizes."""
    sizes = ((1024, 41e-6), (1 << 26, 5.64e-3))
    speeds = [
        {
            "kind": "all_reduce",
            "memory": "contiguous",
            "size_bytes": size_bytes,
            "goes": 20,
            "least_s": 0.9 * median_s * slower,
            "quarter_s": 0.95 * median_s * slower,
            "median_s": median_s * slower,
            "three_quarters_s": 1.1 * median_s * slower,
            "p99_s": 1.4 * median_s * slower,
            "wire_s": None,
        }
        for size_bytes, median_s in sizes
    ]
    return {"backend": "nccl", "machine": "m", "world_size": world_size, "speeds": speeds}


def _split(step_s: float, exposed_comm_s: float) -> dict[str, Any]:
    """Return what a rank of performance/exposed-communication tells of its step."""
    split = {
        "data_s": 0.0004,
        "forward_s": 0.0092,
        "backward_s": 0.0079,
        "exposed_comm_s": exposed_comm_s,
        "optimizer_s": 0.0053,
        "step_s": step_s,
        "comm_s": exposed_comm_s + 0.006,
        "steps": 4,
    }
    return {
        "split": split,
        "kernels": None,
        "gradient_bytes": 1882112,
        "workers": 0,
        "built_in": True,
    }


FAULTS = {
    "one_rank_dead": one_rank_dead,
    "slow_link": slow_link,
    "diverged": diverged,
}
