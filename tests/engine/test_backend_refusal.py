"""A backend that nobody can use is refused; one that some can use is for the checks to judge."""

import pytest

from ddpcheck.engine.entries import Present
from ddpcheck.engine.roll import described, refusal_of
from ddpcheck.launch.identity import identity
from ddpcheck.settings import RunSettings

LEADER = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node0", "MASTER_PORT": "29500"}
DEAD = "CUDA finds no device"


def came(*gpus: int) -> list[Present]:
    return [
        Present(
            rank=rank,
            local_rank=0,
            world_size=len(gpus),
            host=f"node{rank}",
            pid=100 + rank,
            gpus=count,
            backend="nccl",
            launcher="environment",
            versions={},
            blindness="" if count else DEAD,
        )
        for rank, count in enumerate(gpus)
    ]


def test_nccl_without_any_gpu_is_refused_with_the_cause() -> None:
    told = refusal_of(came(0, 0), RunSettings(backend="nccl"))
    assert "rank 0 on node0 sees no GPU (CUDA finds no device), nor does any other" in told
    assert "--backend gloo" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("gpus", "backend"),
    [
        pytest.param((8, 8), "nccl", id="all see GPUs"),
        pytest.param((8, 0), "nccl", id="one rank is blind: a finding"),
        pytest.param((0, 8), "nccl", id="rank 0 is blind: a finding"),
        pytest.param((0, 0), "auto", id="no GPU, and none asked for"),
        pytest.param((0, 8), "gloo", id="the CPU was asked for"),
    ],
)
def test_the_run_begins(gpus: tuple[int, ...], backend: str) -> None:
    assert refusal_of(came(*gpus), RunSettings(backend=backend)) == ""


@pytest.mark.parametrize(
    ("gpus", "asked", "backend"),
    [
        ((8, 8), "auto", "nccl"),
        ((8, 0), "auto", "gloo"),
        ((0, 0), "auto", "gloo"),
        ((8, 8), "gloo", "gloo"),
        ((8, 0), "nccl", "nccl"),
    ],
)
def test_the_backend_of_the_run(gpus: tuple[int, ...], asked: str, backend: str) -> None:
    run = described("ddpcheck-1", RunSettings(backend=asked), identity(LEADER), came(*gpus))
    assert run.backend == backend
