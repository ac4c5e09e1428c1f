"""The main job and its breakages on two GPUs over NCCL: pytest -n 0 -m gpus."""

from pathlib import Path

import pytest
from real_ranks import Ended, command

from ddpcheck.report import Verdict

pytestmark = pytest.mark.gpus
HERE = Path(__file__).parent
TWO = "0,1"


def run(tmp_path: Path, target: str, *options: str) -> Ended:
    """Run on both GPUs; ``target`` is FILE:FACTORY in this folder."""
    file, _, factory = target.partition(":")
    place = f"{HERE / file}.py:{factory}"
    words = ["ddpcheck", "run", "--backend", "nccl", "--target", place, *options]
    reports = tmp_path / "reports"
    return command(reports, *words, "--report-dir", str(reports), CUDA_VISIBLE_DEVICES=TWO)


def test_the_default_preflight_passes(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    ended = command(
        reports, "ddpcheck", "run", "--report-dir", str(reports), CUDA_VISIBLE_DEVICES=TWO
    )
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    report = ended.report
    assert (report.verdict, report.run.backend, report.run.world_size) == (Verdict.PASS, "nccl", 2)
    assert [rank.device for rank in report.ranks] == ["cuda:0", "cuda:1"]
    assert report.recommendation["precision"].value in {"bf16", "fp32"}


@pytest.mark.parametrize("target", ["gpu_targets:healthy", "gpu_targets:converted"])
def test_healthy_targets_are_silent(tmp_path: Path, target: str) -> None:
    ended = run(tmp_path, target, "--fail-on", "warning")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert not ended.found()


@pytest.mark.parametrize(
    ("target", "finding", "ranks"),
    [
        ("gpu_targets:two_samples", "buffers/batchnorm-not-synchronized", (0, 1)),
        ("gpu_zero:batch_on_gpu_0", "devices/wrong-device", (1,)),
        ("gpu_zero:model_on_gpu_0", "devices/wrong-device", (1,)),
        ("gpu_zero:context_on_gpu_0", "devices/wrong-device", (1,)),
        ("gpu_targets:perturbed", "gradients/replicas-differ", (0, 1)),
        ("gpu_tampered:healthy", "collectives/wrong-values", (1,)),
    ],
)
def test_breakage_is_found(
    tmp_path: Path, target: str, finding: str, ranks: tuple[int, ...]
) -> None:
    ended = run(tmp_path, target, "--fail-on", "warning")
    # A rank that raises leaves its peer waiting in NCCL: then the run is incomplete, too.
    assert ended.exit_code in {1, 4}, ended.stdout + ended.stderr
    assert ended.took_s < 60
    found = [each for each in ended.report.findings if each.id == finding]
    assert found, ended.stdout
    assert tuple(found[0].ranks) == ranks


def test_a_script_for_one_gpu_is_told_at_its_line(tmp_path: Path) -> None:
    ended = run(tmp_path, "gpu_zero:model_on_gpu_0")
    assert ended.found()["devices/hard-coded-device"] == "warning"


def test_two_ranks_on_one_gpu(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    ended = command(
        reports,
        *[
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--standalone",
            "-m",
            "ddpcheck",
            "run",
        ],
        *["--backend", "nccl", "--report-dir", str(reports)],
        CUDA_VISIBLE_DEVICES="1",
    )
    assert ended.found()["devices/shared-gpu"] == "error"
    assert ended.exit_code == 1


def test_more_ranks_than_gpus_is_a_usage_error(tmp_path: Path) -> None:
    words = ["ddpcheck", "run", "--nproc-per-node", "2", "--backend", "nccl"]
    ended = command(tmp_path / "reports", *words, CUDA_VISIBLE_DEVICES="0")
    assert ended.exit_code == 2
    assert len(ended.own_lines) == 1
