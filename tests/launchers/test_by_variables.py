"""Launchers that no test machine has: ranks with the variables that these set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hosts import Host, _together, made_hosts
from real_ranks import free_port, run_by_hand
from started import assert_healthy, ddpcheck

TORCHRUN = ("-m", "torch.distributed.run")
JOB = ("job-master-0", "job-worker-0")
PORT = "23456"


def deepspeed(rank: int, port: int) -> dict[str, str]:
    """Return what deepspeed/launcher/launch.py sets, on one node with two slots."""
    return {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
        "CROSS_RANK": "0",
        "CROSS_SIZE": "1",
        "LOCAL_SIZE": "2",
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }


def trainjob(pod: int) -> dict[str, str]:
    """Return what Kubeflow trainer's torch plug-in sets: it is for torchrun, and names no rank."""
    return {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": str(pod),
        "PET_MASTER_ADDR": JOB[0],
        "PET_MASTER_PORT": PORT,
    }


def pytorchjob(pod: int) -> dict[str, str]:
    """Return what Kubeflow's controller.v1/pytorch/envvar.go sets: RANK is the pod's number."""
    numbered = {"MASTER_ADDR": JOB[0], "MASTER_PORT": PORT, "WORLD_SIZE": "2", "RANK": str(pod)}
    return trainjob(pod) | numbered | {"PYTHONUNBUFFERED": "1"}


@pytest.fixture
def pods() -> Iterator[Sequence[Host]]:
    with made_hosts(2, names=JOB) as hosts:
        yield hosts


def test_each_process_of_deepspeed_is_a_rank(tmp_path: Path) -> None:
    port = free_port()
    ranks = [deepspeed(rank, port) for rank in range(2)]
    assert_healthy(run_by_hand(tmp_path / "reports", ranks), "deepspeed")


@pytest.mark.parametrize(
    ("variables", "launcher", "told"),
    [
        pytest.param(pytorchjob, (), "pytorchjob", id="a PyTorchJob"),
        pytest.param(
            trainjob, TORCHRUN, "torchrun", id="torchrun in a TrainJob", marks=pytest.mark.thorough
        ),
    ],
)
def test_each_pod_of_kubeflow_is_a_rank(
    pods: Sequence[Host],
    variables: Callable[[int], Mapping[str, str]],
    launcher: Sequence[str],
    told: str,
    tmp_path: Path,
) -> None:
    reports = tmp_path / "reports"
    words = [*launcher, *ddpcheck(reports)]
    started = [(host, words, variables(pod)) for pod, host in enumerate(pods)]
    assert_healthy(_together(reports, started), told, JOB)
