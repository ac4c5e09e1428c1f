from typing import Any

from msgspec.structs import replace

from ddpcheck.train.advice import Row, recommended
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.summary import scaling_lines

MIB = 2**20
ASKED = Recipe(strategy="all", backend="gloo", device="cpu")


def row(strategy: str, speed: float, *, ranks: int = 2, state: int = 8, **changes: Any) -> Row:
    usual = Row(
        strategy=strategy,
        mesh=f"dp={ranks}",
        ranks=ranks,
        tokens_per_s=speed,
        slowest_tokens_per_s=0.98 * speed,
        speed_up=speed / 100,
        efficiency=speed / 100 / ranks,
        communication=0.05,
        state_bytes=(state * MIB,) * ranks,
        peak_bytes=(),
    )
    return replace(usual, **changes)


ALONE = row("single", 100, ranks=1)


def test_one_process_alone_speaks_for_nothing() -> None:
    assert recommended([ALONE], ASKED) == {}


def test_the_quickest_and_the_smallest() -> None:
    advice = recommended([ALONE, row("ddp", 190), row("fsdp", 150, state=4)], ASKED)
    assert {name: each["value"] for name, each in advice.items()} == {
        "strategy": "ddp",
        "strategy_for_memory": "fsdp",
    }
    assert advice["strategy"]["reason"].startswith("the quickest on 2 ranks: 1.90 times one")
    assert "4 MiB, at 79% of the speed" in advice["strategy_for_memory"]["reason"]


def test_all_the_ranks_count() -> None:
    rows = [ALONE, row("ddp", 195), row("fsdp", 300, ranks=4), row("ddp", 290, ranks=4)]
    assert recommended(rows, ASKED)["strategy"]["value"] == "fsdp"


def test_a_bucket_size_that_is_quicker_in_its_slowest_round() -> None:
    usual = row("ddp", 100)
    quick = row("ddp", 120, bucket_cap_mb=100.0)
    noisy = row("ddp", 150, bucket_cap_mb=1.0, slowest_tokens_per_s=90.0)
    told = recommended([ALONE, usual, quick], ASKED)["bucket_cap_mb"]
    assert told == {"value": 100.0, "reason": "ddp is 20% quicker so"}
    assert "bucket_cap_mb" not in recommended([ALONE, usual, noisy], ASKED)
    assert "bucket_cap_mb" not in recommended([ALONE, usual, row("fsdp", 99)], ASKED)


def test_steps_that_are_mostly_communication() -> None:
    told = recommended([ALONE, row("ddp", 100, communication=0.5)], ASKED)["accumulation"]
    # Of 9 passes, communication takes the time of one: 1 / (9 + 1).
    assert told["value"] == 9
    assert "accumulation" not in recommended([ALONE, row("ddp", 100, communication=None)], ASKED)


def test_the_summary_names_the_quickest_in_its_last_line() -> None:
    rows = [ALONE, row("ddp", 190)]
    told = {
        "rows": rows,
        "left_out": [],
        "recommended": recommended(rows, ASKED),
        "global_batch": 32,
        "precision": "fp32",
    }
    *_, last = scaling_lines(told, "report.json")
    assert last.startswith("scaling: ddp on 2 ranks trains 1.90 times as fast as one process")
    assert last.endswith("| report.json")
