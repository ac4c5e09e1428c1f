"""Ranks that are short of something, built for real: by ulimit, tmpfs and control groups."""

from pathlib import Path

import pytest
from control_groups import group, quota, tasks, within
from findings import of, only, outcome
from hosts import made_hosts, run_ranks
from namespaces import why_not
from real_ranks import Ended, run_behind, target

from ddpcheck.finding import Severity

FILES = "data/loader-exhausts-open-files"
MEMORY = "data/loader-fills-shared-memory"
CORES = "environment/too-few-cores"
PROCESSES = "environment/low-processes"
# The run itself takes some, and the two ranks want 24 more.
FEW_TASKS_COUNT = 30
CONSEQUENCES = ("gradients/step-raised", "ranks/raised")
LOADERS = ("--select", "environment,data,gradients/step-raised")


def limited(ulimit: str) -> list[str]:
    """Return the command that runs another one under a limit, such as "-n 128"."""
    return ["sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh"]


def with_shared_memory(options: str) -> list[str]:
    """Return the command that runs another one with a /dev/shm of its own."""
    if reason := why_not():
        pytest.skip(reason)
    mounted = f'mount -t tmpfs -o {options} tmpfs /dev/shm && exec "$@"'
    return ["unshare", "--mount", "sh", "-c", mounted, "sh"]


def test_batches_that_are_kept_under_a_low_limit_on_open_files(tmp_path: Path) -> None:
    options = ("--target", target("faults/loader_short_of_room:every_batch_kept"), *LOADERS)
    ended = run_behind(limited("-n 128"), tmp_path / "reports", *options)
    assert ended.exit_code == 0, ended.stderr
    finding = only(ended.report, FILES)
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "may open 128 files" in finding.message
    assert "the training keeps every batch, 256 in an epoch" in finding.message
    assert "the hard limit is 128" in finding.fix
    assert 'set_sharing_strategy("file_system")' in finding.fix
    assert "tensor.clone()" in finding.fix


@pytest.mark.parametrize("place", ["copies_kept", "small_batches_by_two_workers"])
def test_loaders_that_do_with_few_open_files(place: str, tmp_path: Path) -> None:
    options = ("--target", target(f"clean/loaders:{place}"), *LOADERS)
    ended = run_behind(limited("-n 128"), tmp_path / "reports", *options)
    assert ended.found() == {}, ended.stderr
    assert outcome(ended.report, FILES)[0] == "pass"


def test_samples_of_four_megabytes_in_eight_of_shared_memory(tmp_path: Path) -> None:
    options = ("--target", target("faults/loader_short_of_room:four_megabytes_a_sample"), *LOADERS)
    ended = run_behind(with_shared_memory("size=8m"), tmp_path / "reports", *options)
    finding = of(ended.report, MEMORY)
    assert finding.severity is Severity.ERROR
    # Of the two, those that had come so far when the first one failed.
    assert set(finding.ranks) in ({0}, {1}, {0, 1})
    # A rank that raised has told what it saw, whatever its loader's workers do then.
    told = {rank for each in ended.report.facts[MEMORY] for rank in each.ranks}
    # Where both have raised, they have raised alike, and there is no such finding.
    raised = [each for each in ended.report.findings if each.id == "ranks/raised"]
    assert {rank for each in raised for rank in each.ranks} <= told
    assert "8 MiB of 8 MiB of /dev/shm were free" in finding.message
    assert "shared memory(shm)" in finding.message or "Bus error" in finding.message
    assert "docker run --shm-size=16g" in finding.fix
    assert "num_workers" in finding.fix
    assert set(ended.found()) <= {MEMORY, *CONSEQUENCES}


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("large_batches_without_workers", ("skip", "the loader has no workers")),
        ("small_batches_by_two_workers", ("pass", "")),
    ],
)
def test_loaders_that_do_with_little_shared_memory(
    place: str, told: tuple[str, str], tmp_path: Path
) -> None:
    options = ("--target", target(f"clean/loaders:{place}"), *LOADERS)
    ended = run_behind(with_shared_memory("size=8m"), tmp_path / "reports", *options)
    assert ended.found() == {}, ended.stderr
    assert outcome(ended.report, MEMORY) == told


def test_files_that_shared_memory_has_no_room_for(tmp_path: Path) -> None:
    options = ("--target", target("clean/loaders:small_batches_by_two_workers"), *LOADERS)
    prefix = with_shared_memory("size=64m,nr_inodes=30")
    ended = run_behind(prefix, tmp_path / "reports", *options)
    finding = of(ended.report, MEMORY)
    assert set(ended.found()) <= {MEMORY, *CONSEQUENCES}
    # Whether the inodes were used up within two steps, or would have been later.
    assert finding.severity in (Severity.WARNING, Severity.ERROR)
    assert set(finding.ranks) in ({0}, {1}, {0, 1})
    assert "files (nr_inodes)" in finding.message


def twins(folder: Path, sizes: tuple[str, str]) -> dict[str, tuple[int, ...]]:
    """Run two ranks on each of two hosts of one name, whose /dev/shm are so large."""
    place = target("faults/loader_short_of_room:four_megabytes_a_sample")
    with made_hosts(2, names=("node", "node")) as hosts:
        for host, size in zip(hosts, sizes, strict=True):
            host.mount_shared_memory(f"size={size}")
        ended = run_ranks(
            folder / "reports", hosts, "--target", place, "--select", "data", ranks_per_host=2
        )
    return {each.id: each.ranks for each in ended.report.findings if each.severity != "info"}


@pytest.mark.thorough
def test_hosts_of_one_name_have_each_their_shared_memory(tmp_path: Path) -> None:
    # Two ranks take up to 40 MiB; the four would take more than either host has.
    assert twins(tmp_path, ("60m", "60m")) == {}


def test_the_small_shared_memory_of_one_of_two_hosts_of_one_name_is_found(tmp_path: Path) -> None:
    found = twins(tmp_path, ("60m", "8m"))
    assert set(found[MEMORY]) in ({2}, {3}, {2, 3})
    assert set(found) <= {MEMORY, *CONSEQUENCES}


def in_a_container(folder: Path, cores: float, tasks_count: int) -> Ended:
    """Run two ranks with two threads each in control groups with these limits."""
    with group("cpu", quota(cores)) as time, group("pids", tasks(tasks_count)) as pids:
        prefix = [*within(time, []), *within(pids, [])]
        options = ("--select", "environment")
        return run_behind(prefix, folder / "reports", *options, OMP_NUM_THREADS="2")


def test_ranks_in_a_container_with_little_time_and_few_processes(tmp_path: Path) -> None:
    ended = in_a_container(tmp_path, 0.9, FEW_TASKS_COUNT)
    assert ended.exit_code == 0, ended.stderr
    assert set(ended.found()) == {CORES, PROCESSES}
    cores = of(ended.report, CORES)
    assert (cores.severity, cores.ranks) == (Severity.WARNING, (0, 1))
    assert "time for 0.9 of them" in cores.message
    assert "export OMP_NUM_THREADS=1" in cores.fix
    processes = of(ended.report, PROCESSES)
    assert (processes.severity, processes.ranks) == (Severity.WARNING, (0, 1))
    assert f"(pids.max) is limited to {FEW_TASKS_COUNT} processes" in processes.message
    assert "docker run --pids-limit -1" in processes.fix


def test_ranks_in_a_container_with_enough(tmp_path: Path) -> None:
    ended = in_a_container(tmp_path, 2.0, 1000)
    assert ended.exit_code == 0, ended.stderr
    assert ended.found() == {}
