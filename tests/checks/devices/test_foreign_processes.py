import os
from typing import Any

import msgspec
import pytest
from answers import always
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.devices import foreign_processes
from ddpcheck.checks.devices.foreign_processes import Facts, judge, probe
from ddpcheck.finding import Severity
from ddpcheck.machine.gpu import Gpu, Process

GIB = 2**30
HOST = "pid:[4026531836]"
CONTAINER = "pid:[4026532999]"
LAUNCHER = 100


def process(
    pid: int, gib: float | None = 0.5, name: str = "python", draws: bool = False
) -> Process:
    return Process(pid, name, None if gib is None else int(gib * GIB), draws)


def gpu(rank: int, *others: Process, space: str = HOST, **changed: object) -> Facts:
    """Return a rank with PID 1000 + rank on a GPU of 80 GiB of its own, and who else is there."""
    own = Facts(
        host="node0",
        uuid=f"GPU-{rank}",
        total_bytes=80 * GIB,
        used_bytes=GIB,
        processes=(process(1000 + rank), *others),
        pids=(1000 + rank, LAUNCHER, 1),
        pids_from=f"machine0 {space}",
    )
    return msgspec.structs.replace(own, **changed)


LAPTOP: dict[str, Any] = {"total_bytes": 8 * GIB, "used_bytes": 3 * GIB}


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: gpu(0)}, id="alone"),
        pytest.param({rank: gpu(rank) for rank in range(8)}, id="a GPU each"),
        pytest.param(
            {0: gpu(0, process(1001)), 1: gpu(1, processes=(), uuid="GPU-0")},
            id="ranks share a GPU",
        ),
        pytest.param({0: gpu(0, process(LAUNCHER))}, id="the launcher's context"),
        pytest.param({0: gpu(0, process(7, name="nvidia-cuda-mps-server"))}, id="MPS"),
        pytest.param(
            {0: gpu(0, process(7, 2, "gnome-shell", draws=True), **LAPTOP)}, id="a desktop"
        ),
        pytest.param(
            {0: gpu(0, space=CONTAINER, processes=(process(5000),))}, id="PIDs of the host"
        ),
        pytest.param({0: gpu(0, space=CONTAINER, processes=())}, id="a container shows none"),
        pytest.param({0: gpu(0, processes=(process(5000),))}, id="who knows by which PIDs"),
        pytest.param({0: gpu(0, processes=None)}, id="nobody knows"),
        pytest.param({0: gpu(0, total_bytes=None, used_bytes=None)}, id="memory unknown"),
        pytest.param(
            {
                0: gpu(0, space=CONTAINER, pids=(7,), processes=(process(7),)),
                1: gpu(1, space="pid:[4026533000]", pids=(7,), processes=(process(7),)),
            },
            id="the same PID in two containers",
        ),
        pytest.param(
            {
                0: gpu(0, pids=(7,), processes=(process(7),)),
                1: gpu(1, pids=(7,), processes=(process(7),), pids_from=f"machine1 {HOST}"),
            },
            id="the same PID on two machines",
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (gpu(1, process(4711, 20, "vllm")), "PID 4711 (vllm, 20.0 GiB)"),
        (gpu(1, process(4711, None, "")), "PID 4711 (unknown, 0.0 GiB)"),
        (gpu(1, process(4711), space=CONTAINER), "PID 4711"),
        (gpu(1, processes=(process(4711),)), "PID 4711"),
        (gpu(1, process(LAUNCHER, 20, "jupyter")), "PID 100 (jupyter, 20.0 GiB)"),
        (gpu(1, *(process(4700 + n) for n in range(9))), "and 1 more"),
    ],
)
def test_other_processes_are_named_once(own: Facts, told: str) -> None:
    used = msgspec.structs.replace(own, used_bytes=30 * GIB)
    (finding,) = judge({0: gpu(0), 1: used})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert told in finding.message
    assert "ps -o user" in finding.fix


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(gpu(1, space=CONTAINER, processes=()), id="in another container"),
        pytest.param(gpu(1), id="of no process"),
        pytest.param(gpu(1, processes=None), id="unknown"),
    ],
)
def test_memory_that_nobody_owns_is_told(own: Facts) -> None:
    used = msgspec.structs.replace(own, used_bytes=21 * GIB)
    (finding,) = judge({0: gpu(0), 1: used})
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
    assert "20.0 of 80.0 GiB in use, not by this run; limit 8.0" in finding.message
    assert "nvidia-smi" in finding.fix


def test_a_rank_on_a_neighbours_gpu_is_the_guilty_one() -> None:
    facts = {0: gpu(0, process(1001), process(1002)), 1: gpu(1), 2: gpu(2)}
    (finding,) = judge(facts)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (1, 2))
    assert "rank 1 (node0): works on GPU-1, is also on GPU-0" in finding.message
    assert "set_device" in finding.fix


def test_many_ranks_are_one_finding() -> None:
    (finding,) = judge({rank: gpu(rank, process(9)) for rank in range(1000)})
    assert len(finding.ranks) == 1000
    assert finding.message.endswith("; and 992 more")


def test_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Gpu("GPU-1", processes=(process(9),), total_bytes=8 * GIB, used_bytes=GIB)
    monkeypatch.setattr(foreign_processes, "gpu_of", {"cuda:1": own}.get)
    facts = probe(context_with(device="cuda:1", machine="machine0"))
    assert (facts.uuid, facts.processes, facts.pids[0]) == ("GPU-1", own.processes, os.getpid())
    assert facts.pids_from.startswith("machine0 pid:[")


@pytest.mark.parametrize(
    ("device", "gpu_or_reason", "reason"),
    [
        ("cpu", "", "this run uses no GPU"),
        ("cuda:0", "NVML: Driver Not Loaded", "Driver Not Loaded"),
        ("cuda:0", Gpu("GPU-1", mig=True), "slice"),
    ],
)
def test_what_cannot_be_measured_is_skipped(
    device: str, gpu_or_reason: Gpu | str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_processes, "gpu_of", always(gpu_or_reason))
    with pytest.raises(Skip, match=reason):
        probe(context_with(device=device))
