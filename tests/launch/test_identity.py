import socket
import threading
from typing import Any

import pytest
from answers import always

from ddpcheck.errors import ExitCode, UsageError
from ddpcheck.launch import identity as module
from ddpcheck.launch.identity import (
    Identity,
    identity,
    is_this_host,
    require_one_rank,
    require_whole_job,
    started_by_launcher,
)
from ddpcheck.launch.local import rank_environment

TORCHRUN = {
    "RANK": "5",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
}
BY_HAND = {name: TORCHRUN[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}
# Set aside for documentation (RFC 5737): no machine has it.
ELSEWHERE = "192.0.2.1"


def told(environ: dict[str, str], **changed: str | None) -> dict[str, str]:
    """Return the variables with some changed; None leaves one out."""
    whole = environ | {name: value for name, value in changed.items() if value is not None}
    return {name: value for name, value in whole.items() if changed.get(name, "") is not None}


def who(**changed: Any) -> Identity:
    values: dict[str, Any] = {
        "rank": 0,
        "local_rank": 0,
        "world_size": 2,
        "host": "node0",
        "master_addr": "127.0.0.1",
        "master_port": 29500,
        "launcher": "environment",
        "store_is_hosted": False,
        "attempt": "0",
    }
    return Identity(**values | changed)


def test_what_torchrun_sets_is_read() -> None:
    assert identity(TORCHRUN) == Identity(
        rank=5,
        local_rank=1,
        world_size=8,
        host=socket.gethostname(),
        master_addr="node0",
        master_port=29500,
        launcher="torchrun",
        store_is_hosted=True,
        attempt="2",
    )


def test_what_is_set_by_hand_is_read() -> None:
    found = identity(BY_HAND)
    assert (found.rank, found.local_rank, found.world_size) == (5, 5, 8)
    assert (found.launcher, found.store_is_hosted, found.attempt) == ("environment", False, "0")


@pytest.mark.parametrize("rank", [0, 3])
def test_what_ddpcheck_sets_for_its_own_ranks_is_read(rank: int) -> None:
    found = identity(rank_environment(rank, 4, 41234))
    assert (found.rank, found.local_rank, found.world_size) == (rank, rank, 4)
    assert (found.master_addr, found.master_port) == ("127.0.0.1", 41234)
    assert (found.launcher, found.store_is_hosted) == ("ddpcheck", True)


def test_an_agent_that_hosts_no_store_is_seen() -> None:
    assert not identity(told(TORCHRUN, TORCHELASTIC_USE_AGENT_STORE="False")).store_is_hosted


@pytest.mark.parametrize(
    ("environ", "rank"),
    [
        (told(BY_HAND, RANK=" 5 "), 5),
        (told(BY_HAND, RANK="05"), 5),
        (told(BY_HAND, RANK="99"), 99),
        (told(BY_HAND, WORLD_SIZE="1"), 5),
    ],
)
def test_what_the_launch_stage_judges_is_let_through(environ: dict[str, str], rank: int) -> None:
    assert identity(environ).rank == rank


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param(told(BY_HAND, WORLD_SIZE=None), "WORLD_SIZE is not: start the", id="no size"),
        pytest.param(told(BY_HAND, MASTER_ADDR=None), "MASTER_ADDR is not", id="no address"),
        pytest.param(told(BY_HAND, MASTER_PORT=None), "MASTER_PORT is not", id="no port"),
        pytest.param(told(BY_HAND, MASTER_ADDR=""), "MASTER_ADDR is not", id="empty address"),
        pytest.param(
            told(TORCHRUN, RANK=None), "LOCAL_RANK is set but RANK is not", id="LOCAL_RANK alone"
        ),
        pytest.param(told(BY_HAND, RANK="one"), "RANK is 'one'", id="RANK is a word"),
        pytest.param(told(BY_HAND, RANK="-1"), "RANK is '-1'", id="RANK is negative"),
        pytest.param(told(BY_HAND, RANK="1.0"), "RANK is '1.0'", id="RANK is a fraction"),
        pytest.param(told(BY_HAND, WORLD_SIZE="x8"), "WORLD_SIZE is 'x8'", id="a size that is not"),
        pytest.param(told(TORCHRUN, LOCAL_RANK="a"), "LOCAL_RANK is 'a'", id="LOCAL_RANK"),
        pytest.param(told(BY_HAND, MASTER_PORT="http"), "MASTER_PORT is 'http'", id="a service"),
        pytest.param(told(BY_HAND, MASTER_PORT="0"), "between 1 and 65535", id="port 0"),
        pytest.param(told(BY_HAND, MASTER_PORT="65536"), "between 1 and 65535", id="port 65536"),
        pytest.param(
            told(TORCHRUN, RANK=""),
            "LOCAL_RANK is set but RANK is not",
            id="empty RANK",
        ),
        pytest.param(
            told(BY_HAND, WORLD_SIZE="0"),
            "WORLD_SIZE is",
            id="WORLD_SIZE is 0",
        ),
    ],
)
def test_what_cannot_meet_is_told_in_one_line(environ: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        identity(environ)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("environ", "by_launcher"),
    [
        ({}, False),
        ({"WORLD_SIZE": "2", "MASTER_ADDR": "node0", "SLURM_PROCID": "0"}, False),
        ({"RANK": "0"}, True),
        ({"LOCAL_RANK": "0"}, True),
        (TORCHRUN, True),
    ],
)
def test_a_launcher_is_known_by_the_rank_it_gave(
    environ: dict[str, str], by_launcher: bool
) -> None:
    assert started_by_launcher(environ) is by_launcher


@pytest.mark.parametrize(
    ("process", "may"),
    [
        pytest.param(who(), True, id="rank 0"),
        pytest.param(who(store_is_hosted=True), False, id="the agent hosts it"),
        pytest.param(who(master_addr=ELSEWHERE), True, id="rank 0, wherever it is"),
        pytest.param(who(rank=1), True, id="rank 1 on the master's machine"),
        pytest.param(who(rank=1, master_addr="localhost"), True, id="by name"),
        pytest.param(who(rank=1, master_addr=ELSEWHERE), False, id="rank 1 on another"),
        pytest.param(who(rank=1, store_is_hosted=True), False, id="rank 1, hosted"),
        pytest.param(who(rank=1, master_addr="no such host"), False, id="a name of nobody"),
        pytest.param(
            who(rank=1, master_addr="a" * 64),
            False,
            id="a name that is too long",
        ),
    ],
)
def test_the_store_is_hosted_on_the_masters_machine_alone(process: Identity, may: bool) -> None:
    assert process.may_host_store is may


def test_a_name_server_that_is_silent_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answer = threading.Event()

    def look_up(host: str, *_others: object, **_named: object) -> list[object]:
        assert threading.current_thread() is not threading.main_thread()
        asked.append(host)
        answer.wait()
        return []

    monkeypatch.setattr(module, "LOOKUP_S", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    process = who(rank=1, master_addr="node-behind-a-dead-name-server")
    assert [process.may_host_store, process.is_on_master] == [False, False]
    assert asked == ["node-behind-a-dead-name-server"]
    answer.set()


def test_any_of_the_addresses_behind_a_name_may_be_this_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = (socket.AF_INET, socket.SOCK_STREAM, 0, "")
    found = [(*stream, (ELSEWHERE, 1)), (*stream, ("127.0.0.1", 1))]
    monkeypatch.setattr(socket, "getaddrinfo", always(found))
    assert is_this_host("a name with two addresses")


ALONE_ON_ITS_NODE = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
    "SLURM_STEP_NODELIST": "node[1-2]",
}
A_POD = told(BY_HAND, PET_NNODES="2", PET_NODE_RANK="1")


@pytest.mark.parametrize(
    ("environ", "launcher"),
    [
        pytest.param(ALONE_ON_ITS_NODE, "slurm", id="one task a node"),
        pytest.param(A_POD, "pytorchjob", id="a pod of a PyTorchJob"),
        pytest.param(told(BY_HAND, LOCAL_WORLD_SIZE="1"), "environment", id="by hand"),
    ],
)
def test_one_rank_a_node_does_not_pass_for_the_ranks_it_was_to_start(
    environ: dict[str, str], launcher: str
) -> None:
    with pytest.raises(UsageError, match=f"--nproc-per-node 8: {launcher} has numbered") as raised:
        require_one_rank(environ, 8)
    assert "srun --ntasks-per-node=8" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("environ", "nproc"),
    [
        pytest.param(ALONE_ON_ITS_NODE, None, id="nothing was asked for"),
        pytest.param(ALONE_ON_ITS_NODE, 1, id="one was asked for"),
        pytest.param(
            ALONE_ON_ITS_NODE | {"SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, 8, id="a task for each rank"
        ),
        pytest.param(ALONE_ON_ITS_NODE | TORCHRUN, 8, id="ddpcheck's own agent in a task"),
        pytest.param(told(TORCHRUN, LOCAL_WORLD_SIZE="1"), 8, id="ddpcheck's own agent"),
        pytest.param({}, 8, id="no launcher"),
        pytest.param(BY_HAND, 8, id="nobody knows how many are on the node"),
    ],
)
def test_a_rank_takes_part_as_one(environ: dict[str, str], nproc: int | None) -> None:
    require_one_rank(environ, nproc)


@pytest.mark.parametrize("pods", ["2", "1:4"])
def test_one_pod_of_several_does_not_pass_for_the_job(pods: str) -> None:
    with pytest.raises(UsageError, match="torchrun -m ddpcheck run"):
        require_whole_job({"PET_NNODES": pods})


POD = {"PET_NNODES": "2", "RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "job-master-0"}


@pytest.mark.parametrize("pod", [POD, POD | {"PET_NNODES": "1", "RANK": "0"}])
def test_a_pod_of_several_ranks_in_which_python_is_one_does_not_wait_for_them(
    pod: dict[str, str],
) -> None:
    with pytest.raises(UsageError, match=r"NODE is 2.*torchrun -m ddpcheck run"):
        require_whole_job(pod | {"PET_NPROC_PER_NODE": "2"})


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"PET_NNODES": "1"},
        {"PET_NNODES": "1:1"},
        TORCHRUN | {"PET_NNODES": "2"},
        TORCHRUN | {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2"},
        *[POD | {"PET_NPROC_PER_NODE": each} for each in ("1", "auto", "gpu")],
    ],
)
def test_a_whole_job_and_a_rank_of_one_go_on(environ: dict[str, str]) -> None:
    require_whole_job(environ)
