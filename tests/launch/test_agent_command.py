"""The command line for torch's elastic agent, read back by the agent's own parser."""

import sys

import pytest
from torch.distributed.run import config_from_args, get_args_parser

from ddpcheck.launch.agent import agent_command, agent_environment
from ddpcheck.settings import LaunchOptions

ARGUMENTS = ["run", "--profile", "quick", "--select", "launch", "--nnodes", "2"]


def flags(options: LaunchOptions, nproc: int = 8) -> list[str]:
    interpreter, dash_m, module, *rest = agent_command(options, nproc)
    assert (interpreter, dash_m, module) == (sys.executable, "-m", "torch.distributed.run")
    return rest


def test_the_agent_is_told_what_was_asked_for() -> None:
    options = LaunchOptions(
        nnodes=4, node_rank=3, master_addr="node0", master_port=29511, rdzv_id="job-7"
    )
    read = get_args_parser().parse_args([*flags(options), "-m", "ddpcheck", *ARGUMENTS])
    assert (read.nnodes, read.nproc_per_node, read.node_rank) == ("4", "8", 3)
    assert (read.master_addr, read.master_port) == ("node0", 29511)
    assert (read.rdzv_backend, read.rdzv_id) == ("static", "job-7")
    assert (read.module, read.training_script) == (True, "ddpcheck")
    assert read.training_script_args == ARGUMENTS


def test_an_endpoint_takes_the_place_of_the_masters_address() -> None:
    options = LaunchOptions(
        nnodes=2, rdzv_backend="c10d", rdzv_endpoint="node0:29400", master_addr="node9"
    )
    given = flags(options)
    read = get_args_parser().parse_args([*given, "-m", "ddpcheck", *ARGUMENTS])
    assert (read.rdzv_backend, read.rdzv_endpoint) == ("c10d", "node0:29400")
    assert not [flag for flag in given if flag.startswith("--master")]


@pytest.mark.parametrize(
    ("options", "endpoint"),
    [
        (LaunchOptions(nnodes=2, master_addr="node0", master_port=1234), "node0:1234"),
        (LaunchOptions(nnodes=2, rdzv_backend="c10d", rdzv_endpoint="node0:7"), "node0:7"),
    ],
)
def test_the_agent_would_launch_that(options: LaunchOptions, endpoint: str) -> None:
    words = [*flags(options, 2), "-m", "ddpcheck", *ARGUMENTS]
    config, command, arguments = config_from_args(get_args_parser().parse_args(words))
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (2, 2, 2)
    assert config.rdzv_endpoint == endpoint
    assert command == sys.executable
    assert arguments[-len(ARGUMENTS) :] == ARGUMENTS


def test_a_rank_has_one_thread_unless_the_user_says_otherwise() -> None:
    assert agent_environment({}) == {"OMP_NUM_THREADS": "1"}
    assert agent_environment({"OMP_NUM_THREADS": "4", "A": "b"}) == {
        "OMP_NUM_THREADS": "4",
        "A": "b",
    }
