"""``ddpcheck`` as a worker of torch's own launchers, which meet at a port that was given.

How it runs under ``torchrun --standalone`` many other tests show.
"""

from pathlib import Path

import pytest
from hosts import made_hosts, run_torchrun, train_torchrun
from packages import missing
from real_ranks import free_port
from started import SHORT_TRAINING, assert_healthy, assert_trained, ddpcheck, python, start

from ddpcheck.report import read_report


@pytest.mark.parametrize(
    "launcher",
    [
        pytest.param("torch.distributed.run", id="torchrun"),
        pytest.param(
            "torch.distributed.launch",
            id="launch, which adds --local-rank",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_each_worker_of_torchs_launchers_is_a_rank(launcher: str, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    words = ["-m", launcher, "--nproc-per-node", "2", "--master-port", str(free_port())]
    assert_healthy(start(reports, *python(*words, *ddpcheck(reports))), "torchrun")


@pytest.mark.thorough
def test_two_commands_of_one_job_each_have_their_verdict(tmp_path: Path) -> None:
    # The agent's store outlives the first one.
    folders = [tmp_path / "one", tmp_path / "two"]
    script = " && ".join(
        " ".join(python(*ddpcheck(each, "--select", "launch"))) for each in folders
    )
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = start(folders[0], *python(*words, "--no-python", "bash", "-c", script))
    assert ended.exit_code == 0, ended.stderr
    assert ended.stdout.count("verdict: PASS") == len(folders)
    assert [read_report(each / "latest").run.world_size for each in folders] == [2, 2]


@pytest.mark.thorough
def test_hosts_that_share_no_files_train(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with made_hosts(2) as hosts:
        checked = run_torchrun(reports, hosts, "--select", "launch")
        assert set(checked.exit_codes) == {0}, checked.stderr
        hosts[1].mount_disk(tmp_path)
        apart = ("--strategy", "fsdp", "--checkpoint-every", "0")
        ended = train_torchrun(reports, hosts, *SHORT_TRAINING, *apart)
    assert set(ended.exit_codes) == {0}, ended.stderr
    assert list(ended.report.run.hosts) == ["host0", "host1"]
    assert_trained(ended.report, "fsdp")


def test_on_hosts_apart_every_strategy_trains_what_one_process_trains(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    with made_hosts(2) as hosts:
        run_torchrun(reports, hosts, "--select", "launch")
        verify = ("--verify", "--verify-steps", "2", "--global-batch", "8")
        ended = train_torchrun(reports, hosts, "--strategy", "all", *verify)
    assert set(ended.exit_codes) == {0}, ended.stderr
    training = ended.report.training
    assert training is not None
    results = [(row["strategy"], row["result"]) for row in training["parity"]]
    assert "fail" not in {result for _, result in results}
    wanted = {"ddp", "fsdp", "tp", "pp", "zero1"} | ({"deepspeed"} - set(missing("deepspeed")))
    assert wanted <= {strategy for strategy, result in results if result == "pass"}
