"""How strategies scale, on real gloo ranks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from verified import scale

from ddpcheck.target.minigpt import MiniGPT, MiniGPTConfig
from ddpcheck.train.parallel import ALONE, Place
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.scaling import plan_of, sizes, state_bytes
from ddpcheck.train.strategies import single, strategy_names


@pytest.mark.parametrize(
    ("world_size", "expected"),
    [(1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (4, [1, 2, 4]), (6, [1, 2, 4, 6])],
)
def test_sizes(world_size: int, expected: list[int]) -> None:
    assert sizes(world_size) == expected


def test_ddp_on_two_ranks_beside_one(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = scale(tmp_path, "ddp")["rows"]
    seen = [(row["strategy"], row["ranks"], row["bucket_cap_mb"]) for row in rows]
    buckets = (None, 1.0, 5.0, 100.0)
    assert seen == [("single", 1, None), *(("ddp", 2, bucket) for bucket in buckets)]
    alone = rows[0]
    assert (alone["speed_up"], alone["efficiency"], alone["communication"]) == (1.0, 1.0, 0.0)
    for row in rows:
        assert 0 < row["slowest_tokens_per_s"] <= row["tokens_per_s"]
        assert row["efficiency"] == pytest.approx(row["speed_up"] / row["ranks"])
        assert 0 <= row["communication"] < 1
        assert row["state_bytes"] == alone["state_bytes"] * row["ranks"]


def test_each_of_two_ranks_holds_half_of_what_is_sharded(tmp_path: Path) -> None:
    told = scale(tmp_path, "fsdp")
    alone, fsdp = told["rows"]
    assert max(fsdp["state_bytes"]) == pytest.approx(alone["state_bytes"][0] / 2, rel=0.02)
    assert told["recommended"]["strategy"]["value"] == "fsdp"


def test_a_pipeline_cannot_do_without_what_stages_tell_each_other(tmp_path: Path) -> None:
    _, pipeline = scale(tmp_path, "pp")["rows"]
    assert (pipeline["strategy"], pipeline["mesh"]) == ("pp", "pp=2")
    assert pipeline["communication"] is None
    assert pipeline["tokens_per_s"] > 0


def test_of_all_strategies_those_with_their_usual_options_are_measured() -> None:
    asked = Recipe(strategy="all", backend="gloo", device="cpu", micro_batches=0)
    planned = plan_of(asked, 2, 8)
    measured = [each.strategy for each in planned.recipes if each.bucket_cap_mb is None]
    left_out = [each.strategy for each in planned.misfits]
    assert sorted(measured + left_out) == sorted(set(strategy_names()) - {"single"})
    assert "hsdp" in left_out


def test_what_a_rank_holds() -> None:
    model = MiniGPT(MiniGPTConfig())
    numbers = sum(each.numel() for each in model.parameters())
    recipe = Recipe(strategy="single", backend="gloo", device="cpu", mesh={"dp": 1})
    parallel = single.build(model, Place(recipe, torch.device("cpu"), ALONE))
    assert state_bytes(parallel) == 2 * 4 * numbers  # no state yet
    for each in model.parameters():
        each.grad = torch.zeros_like(each)
    parallel.optimizer.step()
    assert state_bytes(parallel) == pytest.approx(4 * 4 * numbers, rel=1e-3)
