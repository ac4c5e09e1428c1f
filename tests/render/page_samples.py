"""Reports for the page; ``python tests/render/page_samples.py`` writes the golden pages anew.

Look at the difference with ``git diff tests/render/golden_pages`` before you commit it.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from render_samples import SAMPLES, check, ranks, report, run

from ddpcheck.finding import Finding, Recommendation, Severity
from ddpcheck.render import render
from ddpcheck.report import FoldedFact, RankOutcome, Report

GOLDEN_PAGES = Path(__file__).parent / "golden_pages"
KINDS = ("all_reduce", "all_gather_into_tensor", "broadcast")
SIZES_BYTES = (1 << 10, 1 << 20, 1 << 26)
STAGES_OF = {
    "environment/version-mismatch": "environment",
    "collectives/low-bandwidth": "collectives",
    "collectives/late-rank": "collectives",
    "performance/exposed-communication": "rehearsal",
}


def speeds(rank: int = 0) -> list[dict[str, Any]]:
    """Return what a rank timed; a later one was a little slower."""
    slower = 1 + rank % 8 / 100
    return [
        {
            "kind": kind,
            "memory": "contiguous",
            "size_bytes": size_bytes,
            "goes": 20,
            **{
                name: slower * factor * (2e-5 + size_bytes / 3e11) * (1 + KINDS.index(kind))
                for name, factor in (
                    ("least_s", 0.8),
                    ("quarter_s", 0.9),
                    ("median_s", 1.0),
                    ("three_quarters_s", 1.2),
                    ("p99_s", 2.0),
                )
            },
            "wire_s": None,
        }
        for kind in KINDS
        for size_bytes in SIZES_BYTES
    ]


def bandwidth_fact(rank: int, world_size: int) -> dict[str, Any]:
    before = speeds() if rank == 0 else []
    return {
        "backend": "nccl",
        "world_size": world_size,
        "speeds": speeds(rank),
        "before": [{**each, "median_s": 0.8 * each["median_s"]} for each in before],
        "loopback_gbps": None,
    }


def turns_fact(rank: int, late: int) -> dict[str, Any]:
    slow = 1.3 if rank == late else 1.0
    wait_s = 0.0001 if rank == late else 0.0009
    turns = {"pace_s": [0.003 * slow] * 6, "mean_s": 0.003 * slow, "wait_s": [wait_s] * 30}
    return {"host": f"node{rank // 8}", "kind": "NVIDIA H200", "turns": turns}


def split_fact(rank: int, late: int) -> dict[str, Any]:
    slow = 1.3 if rank == late else 1.0
    split = {
        "data_s": 0.001,
        "forward_s": 0.010 * slow,
        "backward_s": 0.020 * slow,
        "exposed_comm_s": 0.004,
        "optimizer_s": 0.003,
        "comm_s": 0.009,
        "step_s": 0.008 + 0.030 * slow,
        "steps": 4,
    }
    return {"split": split, "kernels": None, "gradient_bytes": 1 << 21, "workers": 0}


def versions_fact(torch: str) -> dict[str, Any]:
    return {"host": "node0", "nccl_library": "", "versions": {"torch": torch, "cuda": "13.0"}}


def training() -> dict[str, Any]:
    def difference(kind: str, ratio: float) -> dict[str, Any]:
        told = {"kind": kind, "step": 2, "name": "head.weight", "bound": 1e-6, "ratio": ratio}
        return {**told, "relative": 1e-6 * ratio}

    far = difference("gradient", 40.0)
    worst = {kind: difference(kind, 0.4) for kind in ("loss", "norm", "gradient", "weights")}
    alike = {"mesh": "dp=2", "options": {}, "precision": "fp32", "result": "pass", "worst": worst}
    return {
        "strategy": "ddp",
        "steps": 300,
        "global_batch": 32,
        "precision": "fp32",
        "loss": [[step, 2.3 + 3.3 / (1 + step / 20)] for step in range(0, 301, 5)],
        "final_loss": 2.51,
        "tokens_per_s": 20270.8,
        "scaling_efficiency": 0.87,
        "exposed_comm_share": 0.048,
        "parameters": 470528,
        "parity": [
            {"strategy": "ddp", **alike, "broken": None, "suspect": None},
            {
                **alike,
                "strategy": "fsdp",
                "options": {"cpu_offload": "true"},
                "result": "fail",
                "worst": {**worst, "gradient": far},
                "broken": far,
                "suspect": {**far, "name": "norm.bias"},
            },
            {
                "strategy": "hsdp",
                "mesh": "",
                "options": {},
                "result": "skip",
                "reason": "it needs 4 ranks",
            },
        ],
        "scaling": {
            "global_batch": 32,
            "precision": "fp32",
            "rows": [
                {
                    "strategy": strategy,
                    "mesh": f"dp={count}",
                    "ranks": count,
                    "tokens_per_s": 11_000.0 * count * 0.9,
                    "slowest_tokens_per_s": 10_000.0,
                    "speed_up": count * 0.9,
                    "efficiency": 0.9,
                    "communication": 0.1 if count > 1 else 0.0,
                    "state_bytes": [7_528_448] * count,
                    "peak_bytes": [],
                    "bucket_cap_mb": None if strategy == "single" else 1.0,
                }
                for strategy, count in (("single", 1), ("ddp", 2))
            ],
            "left_out": [{"strategy": "tp", "mesh": {"tp": 3}, "options": {}, "reason": "3 heads"}],
            "recommended": {"strategy": {"value": "ddp", "reason": "the quickest on 2 ranks"}},
        },
    }


def folded(values: dict[int, dict[str, Any]]) -> list[FoldedFact]:
    """Return equal facts once, as a report has them."""
    found: dict[str, FoldedFact] = {}
    for rank, value in values.items():
        known = found.get(str(value))
        together = (*known.ranks, rank) if known else (rank,)
        found[str(value)] = FoldedFact(together, value)
    return list(found.values())


@cache
def measured(world_size: int = 8) -> Report:
    """Return a report of ranks of which one is late, and one has another torch."""
    late, odd = world_size - 2, world_size - 1
    records = ranks(world_size, 8)
    found = Finding(
        id="collectives/late-rank",
        title=f"1 of {world_size} ranks compute more slowly than the others",
        message=f"rank {late} (node{late // 8}) by 30%; limit 25%",
        fix="on the named host, look at what slows it: nvidia-smi -q -d PERFORMANCE,CLOCK",
        ranks=(late,),
        severity=Severity.WARNING,
        evidence={"waited_s": {str(late): 0.024}, "names": ["a", "b"], "limit": 0.25},
    )
    every = range(world_size)
    facts = {
        "environment/version-mismatch": folded(
            {rank: versions_fact("2.12.1" if rank == odd else "2.13.0") for rank in every}
        ),
        "environment/low-open-files": folded(
            {rank: {"host": "node0", "open_count": 17 + rank % 2} for rank in every}
        ),
        "collectives/low-bandwidth": folded(
            {rank: bandwidth_fact(rank, world_size) for rank in every}
        ),
        "collectives/far-below-links": folded(
            {
                rank: {"ways": [{"gbps": 478.1, "target": 1, "words": "18 NVLinks of 26.6 GB/s"}]}
                for rank in every
            }
        ),
        "collectives/late-rank": folded({rank: turns_fact(rank, late) for rank in every}),
        "performance/exposed-communication": folded(
            {rank: split_fact(rank, late) for rank in every}
        ),
    }
    hosts = tuple(dict.fromkeys(record.host for record in records.values()))
    outcomes = {"collectives/late-rank": "fail"}
    return report(
        run(world_size=world_size, hosts=hosts, backend="nccl"),
        records,
        [check(each, stage, outcomes.get(each, "pass")) for each, stage in STAGES_OF.items()],
        [found],
        facts=facts,
        training=training(),
        recommendation={"precision": Recommendation("bf16", "1.4x the speed of fp32")},
    )


# A number, a text and a shape that no version of ddpcheck has written.
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1e-320, 1e308, 10**400, "nan", "inf", "", "x" * 50, "\ud800"),
    *([], {}, [[]], [None], {"": None}, [1, 2, 3]),
)


def all_failed(world_size: int, reason: str) -> Report:
    """Return a report in which every rank failed for a reason of its own."""
    records = {
        rank: type(record)(
            rank=rank, host=record.host, outcome=RankOutcome.FAILED, reason=f"{reason} {rank}"
        )
        for rank, record in ranks(world_size, 8).items()
    }
    return report(run(world_size=world_size, hosts=("node0",)), records, [check("launch/fault")])


def stripped(page: str) -> str:
    """Return a page without what other machines and other changes make differ.

    Another processor rounds the curves of a plot differently, and the manual of a check is its own.
    """
    page = re.sub(r"<svg .*?</svg>", "<svg></svg>", page, flags=re.DOTALL)
    page = re.sub(r"<style>.*?</style>", "<style></style>", page, flags=re.DOTALL)
    return re.sub(r'<details class="manual">.*?</details>\n', "", page, flags=re.DOTALL)


PAGES: dict[str, Callable[[], Report]] = {
    **SAMPLES,
    "measured": measured,
    "measured_4096_ranks": partial(measured, 4096),
}


def golden_page(name: str) -> Path:
    """Return the file that holds what the page of a sample must look like."""
    return GOLDEN_PAGES / f"{name}.html"


def write_golden_pages() -> None:
    """Write what the page of every sample looks like now."""
    GOLDEN_PAGES.mkdir(exist_ok=True)
    for name, sample in PAGES.items():
        page = stripped(render(sample(), "html"))
        golden_page(name).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write_golden_pages()
