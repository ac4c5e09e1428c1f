"""What is read in scripts matters on GPUs: warnings there, where a CPU run has remarks."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from real_ranks import Ended, by_hand, clean_environment, command, free_port, run_by_hand, target

from ddpcheck.finding import Severity

pytestmark = pytest.mark.gpus
TWO = {"CUDA_VISIBLE_DEVICES": "0,1"}


def run(tmp_path: Path, place: str) -> Ended:
    reports = tmp_path / "reports"
    words = ["ddpcheck", "run", "--backend", "nccl", "--target", target(place)]
    return command(reports, *words, "--report-dir", str(reports), **TWO)


@pytest.mark.parametrize(
    ("place", "check", "words"),
    [
        (
            "faults/mask_after_cuda:make",
            "devices/mask-set-late",
            "became '1', and CUDA still shows 2",
        ),
        ("faults/plain_load:make", "devices/load-without-map-location", "torch.load(file)"),
    ],
)
def test_a_line_of_the_script_is_a_warning(
    place: str, check: str, words: str, tmp_path: Path
) -> None:
    ended = run(tmp_path, place)
    (finding,) = [each for each in ended.report.findings if each.id == check]
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert words in finding.message
    assert finding.location is not None


def swapped(rank: int, port: int) -> Mapping[str, str]:
    """Return the variables of a rank whose GPU is the other one's than torch would guess."""
    local = {"LOCAL_RANK": str(1 - rank), "LOCAL_WORLD_SIZE": "2"}
    return clean_environment() | by_hand(rank, 2, port) | local | TWO


def test_a_barrier_whose_gpu_torch_would_guess_wrong_is_a_warning(tmp_path: Path) -> None:
    port = free_port()
    options = ("--backend", "nccl", "--target", target("faults/barrier_before_device:make"))
    ranks = [swapped(rank, port) for rank in range(2)]
    ended = run_by_hand(tmp_path / "reports", ranks, *options)
    check = "devices/barrier-before-device"
    (finding,) = [each for each in ended.report.findings if each.id == check]
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert "torch would guess cuda:0 for rank 0, whose own is cuda:1" in finding.message


def test_a_script_that_does_it_well_is_told_nothing(tmp_path: Path) -> None:
    ended = run(tmp_path, "clean/devices_chosen_well:make")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert [each for each in ended.report.findings if each.severity is not Severity.INFO] == []
