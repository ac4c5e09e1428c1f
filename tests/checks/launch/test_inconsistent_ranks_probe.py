import os
from dataclasses import replace

import pytest
from contexts import context_with

from ddpcheck.check import Context, Meeting, Skip
from ddpcheck.checks.launch.inconsistent_ranks import Facts, judge, probe


def context(environ: dict[str, str], device: str = "cpu") -> Context:
    return context_with(rank=1, local_rank=1, world_size=2, environ=environ, device=device)


def test_probe_reads_only_its_variables_as_they_stand() -> None:
    read = probe(context({"RANK": " one ", "WORLD_SIZE": "2", "API_TOKEN": "secret"}))
    assert read == Facts(1, "node0", os.getpid(), {"RANK": "one", "WORLD_SIZE": "2"})


def test_probe_takes_an_empty_variable_for_unset() -> None:
    read = probe(context({"MASTER_ADDR": " ", "GROUP_RANK": "0"}))
    assert read.variables == {"GROUP_RANK": "0"}


@pytest.mark.parametrize(("device", "gpus"), [("cuda:1", 8), ("cpu", 0)])
def test_probe_counts_gpus_where_the_run_uses_them(device: str, gpus: int) -> None:
    assert probe(replace(context({}, device), gpus=8)).gpus == gpus


def test_what_deepspeed_calls_the_local_size_is_one() -> None:
    own = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
    deepspeed = own | {"LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    read = probe(replace(context(deepspeed, device="cuda:1"), gpus=8))
    assert read.variables == own | {"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert (
        probe(context(deepspeed | {"LOCAL_WORLD_SIZE": "4"})).variables["LOCAL_WORLD_SIZE"] == "4"
    )


def test_judge_takes_what_the_probe_measured() -> None:
    read = probe(context({}))
    assert judge({1: read})[0].ranks == (1,)


def test_ranks_that_cannot_meet_are_not_taken_for_missing_ones() -> None:
    met = context_with(environ={"RANK": "0"}, meeting=Meeting("node0:29500", 0.1))
    assert probe(met).rank == 0
    with pytest.raises(Skip, match="cannot meet"):
        probe(replace(met, meeting=Meeting("node0:29500", 60.0, "the port is taken")))
