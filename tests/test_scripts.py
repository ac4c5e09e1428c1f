"""What ddpcheck reads in the script of a target, in a run of it: at its line, for its ranks."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from real_ranks import run, target

from ddpcheck.finding import Severity

SELECTED = ("--select", "launch,devices", "--fail-on", "error")
READ_IN_SCRIPTS = {
    "launch/local-rank-argument",
    "devices/mask-set-late",
    "devices/load-without-map-location",
    "devices/barrier-before-device",
}


@dataclass(frozen=True)
class Fault:
    """A script with its fault: the check, how grave it is on a CPU, the line, and the fix."""

    place: str
    id: str
    severity: Severity
    line: str
    fix: str


FAULTS = [
    Fault(
        "old_local_rank_argument:make",
        "launch/local-rank-argument",
        Severity.WARNING,
        'parser.add_argument("--local_rank", type=int, default=0)',
        'read int(os.environ["LOCAL_RANK"]), or add_argument("--local-rank", "--local_rank")',
    ),
    Fault(
        "mask_after_cuda:make",
        "devices/mask-set-late",
        Severity.INFO,
        'os.environ["CUDA_VISIBLE_DEVICES"] = "1"',
        "launch script",
    ),
    Fault(
        "plain_load:make",
        "devices/load-without-map-location",
        Severity.INFO,
        "model.load_state_dict(torch.load(file))",
        'pass map_location="cpu"',
    ),
    Fault(
        "barrier_before_device:make",
        "devices/barrier-before-device",
        Severity.INFO,
        "dist.barrier()",
        'pass device_id=torch.device("cuda", local_rank) to init_process_group',
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_line_of_the_script_is_told(fault: Fault, tmp_path: Path) -> None:
    ended = run(tmp_path / "reports", "--target", target(f"faults/{fault.place}"), *SELECTED)
    assert ended.exit_code == 0, ended.stderr
    (finding,) = ended.report.findings
    assert (finding.id, finding.severity, finding.ranks) == (fault.id, fault.severity, (0, 1))
    assert fault.fix in finding.fix
    assert finding.location is not None
    source = Path(finding.location.file).read_text().splitlines()
    assert source[finding.location.line - 1].strip() == fault.line


def test_a_script_that_does_it_well_is_told_nothing(tmp_path: Path) -> None:
    place = target("clean/devices_chosen_well:make")
    ended = run(tmp_path / "reports", "--target", place, *SELECTED)
    assert ended.exit_code == 0, ended.stderr
    assert ended.report.findings == []
    outcomes = {each.id: each.outcome for each in ended.report.checks}
    assert {check: str(outcomes[check]) for check in READ_IN_SCRIPTS} == dict.fromkeys(
        READ_IN_SCRIPTS, "pass"
    )
