from typing import Any

import msgspec
import pytest

from ddpcheck.errors import UsageError
from ddpcheck.train.planning import backends, mesh_text, plan
from ddpcheck.train.recipe import Recipe
from ddpcheck.train.strategies import strategy_names

ASKED = Recipe(strategy="ddp", backend="gloo", device="cpu")


def asked(**changes: Any) -> Recipe:
    return msgspec.structs.replace(ASKED, **changes)


def test_strategies_are_found_in_their_folder() -> None:
    assert {"single", "ddp", "fsdp", "zero1"} <= set(strategy_names())


def test_without_a_mesh_the_strategy_lays_out_all_ranks() -> None:
    (recipe,) = plan(asked(), 4, 32).recipes
    assert recipe.mesh == {"dp": 4}


def test_all_strategies_are_tried_on_all_their_meshes_and_the_reference_is_no_row() -> None:
    planned = plan(asked(strategy="all"), 2, 8)
    names = {each.strategy for each in planned.recipes}
    names |= {each.strategy for each in planned.misfits}
    assert names == set(strategy_names()) - {"single"}


def test_what_does_not_fit_is_left_out_with_its_reason() -> None:
    planned = plan(asked(strategy="all"), 2, 9)
    reasons = {each.strategy: each.reason for each in planned.misfits if not each.options}
    assert reasons["ddp"] == "--global-batch 9 cannot be shared by 2 ranks: use 10"


@pytest.mark.parametrize(
    ("recipe", "told"),
    [
        (asked(mesh={"tp": 2}), "--mesh tp=2: ddp has no axis tp, but dp"),
        (asked(mesh={"dp": 4}), "--mesh dp=4 is of 4 ranks, but there are 2"),
        (asked(micro_batches=5), "--micro-batches 5: a rank's share of the batch is 4"),
        (asked(micro_batches=3), "the batch is 4, which cannot be cut into so many equal pieces"),
        (asked(options={"speed": "9"}), "--options speed: ddp has static_graph, bf16_compression"),
        (asked(options={"static_graph": "perhaps"}), "--options of ddp: .*bool"),
        (asked(options={"static_graph": "true"}, micro_batches=2), "use --micro-batches 1"),
        (asked(strategy="fsdp", options={"cpu_offload": "true"}), "cpu_offload is for GPUs"),
        (asked(strategy="hsdp"), "hsdp on replicate=2,shard=1: it needs two replicas"),
        (asked(strategy="tp", mesh={"dp": 2}), "tp on dp=2: it needs two ranks along tp"),
        (asked(strategy="pp"), "--micro-batches 1: pp on pp=2 needs 2"),
        (asked(strategy="pp", mesh={"dp": 2}), "pp on dp=2: it needs two ranks along pp"),
        (asked(strategy="pp", options={"schedule": "dualpipe"}), "--options of pp: .*enum"),
        (asked(strategy="single"), "single on dp=2: it is one process: use --nproc-per-node 1"),
    ],
)
def test_what_cannot_run_is_refused(recipe: Recipe, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan(recipe, 2, 8)


def test_parts_that_are_not_whole_are_refused() -> None:
    with pytest.raises(UsageError, match="tp on tp=8: 8 ranks cannot share 4 heads equally"):
        plan(asked(strategy="tp"), 8, 8)
    with pytest.raises(UsageError, match="pp on pp=8: 8 stages cannot share out 4 pieces"):
        plan(asked(strategy="pp"), 8, 8)


def test_axes_are_put_in_the_order_of_the_strategy() -> None:
    (recipe,) = plan(asked(strategy="tp", mesh={"tp": 2, "dp": 2}), 4, 8).recipes
    assert list(recipe.mesh.items()) == [("dp", 2), ("tp", 2)]


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({"backend": "gloo", "device": "cpu"}, "gloo"),
        ({"backend": "nccl", "device": "cuda"}, "nccl"),
        (
            {"backend": "nccl", "device": "cuda", "options": {"cpu_offload": "true"}},
            "cpu:gloo,cuda:nccl",
        ),
    ],
)
def test_shards_that_wait_in_memory_need_gloo_beside_nccl(
    changes: dict[str, Any], needed: str
) -> None:
    assert backends(plan(asked(strategy="fsdp", **changes), 2, 8)) == needed


def test_a_pipeline_has_a_micro_batch_for_each_stage() -> None:
    pipeline = asked(strategy="pp", micro_batches=0)
    (recipe,) = plan(pipeline, 2, 8).recipes
    assert recipe.micro_batches == 2
    (recipe,) = plan(asked(micro_batches=0), 2, 8).recipes
    assert recipe.micro_batches == 1


def test_a_mesh_and_options_are_for_one_strategy() -> None:
    with pytest.raises(UsageError, match="for one strategy"):
        plan(asked(strategy="all", mesh={"dp": 2}), 2, 8)


def test_a_mesh_is_written_as_it_is_asked_for() -> None:
    assert mesh_text({"dp": 2, "tp": 4}) == "dp=2,tp=4"
