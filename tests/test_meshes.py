"""--mesh on real ranks: groups along each axis, and meshes that do not fit."""

from pathlib import Path

import pytest
from real_ranks import command, run, target

from ddpcheck.errors import ExitCode

# What trains a target makes that its file is imported.
TRAINS = "gradients/step-raised"
IN_MESH, FIT = "collectives/wrong-in-mesh", "launch/mesh-does-not-fit"


@pytest.mark.parametrize(("ranks", "mesh"), [(2, "tp=2"), (2, "dp=2,tp=1"), (4, "dp=2,tp=2")])
def test_a_healthy_mesh_passes(ranks: int, mesh: str, tmp_path: Path) -> None:
    options = ("--nproc-per-node", str(ranks), "--mesh", mesh, "--select", f"{IN_MESH},launch")
    ended = run(tmp_path / "reports", *options)
    assert (ended.exit_code, ended.found()) == (ExitCode.OK, {})
    (told,) = (each for each in ended.report.checks if each.id == IN_MESH)
    assert told.outcome == "pass"
    for axis in mesh.split(","):
        name, _, size = axis.partition("=")
        assert f"{name} {size}" in told.summary


def test_a_mesh_of_another_size_ends_the_run_with_what_would_fit(tmp_path: Path) -> None:
    ended = run(tmp_path / "reports", "--mesh", "dp=3,tp=2", "--select", "launch,collectives")
    assert (ended.exit_code, ended.found()) == (ExitCode.FINDINGS, {FIT: "error"})
    (finding,) = ended.report.findings
    assert finding.ranks == (0, 1)
    assert "choose from: dp=1,tp=2; dp=2,tp=1" in finding.fix


def test_an_axis_with_a_wrong_element_is_named(tmp_path: Path) -> None:
    place = target("faults/small_groups_reduce_wrong:build")
    options = ("--nproc-per-node", "4", "--mesh", "dp=2,tp=2", "--select", f"{IN_MESH},{TRAINS}")
    ended = run(tmp_path / "reports", "--target", place, *options)
    assert ended.found() == {IN_MESH: "error"}
    told = {each.title.rpartition(" ")[2]: each.ranks for each in ended.report.findings}
    assert told == {"dp": (3,), "tp": (3,)}
    assert all("all_reduce, SUM of" in each.message for each in ended.report.findings)


def test_without_a_mesh_it_is_skipped_with_the_reason(tmp_path: Path) -> None:
    ended = run(tmp_path / "reports", "--select", IN_MESH)
    (told,) = (each for each in ended.report.checks if each.id == IN_MESH)
    assert (told.outcome, told.reason) == ("skip", "no --mesh is given")


@pytest.mark.parametrize("mesh", ["dp", "dp=x", "dp=2,dp=2"])
def test_what_is_no_mesh_is_told_in_one_line(mesh: str, tmp_path: Path) -> None:
    ended = command(tmp_path / "reports", "ddpcheck", "run", "--mesh", mesh)
    assert ended.exit_code == ExitCode.USAGE
    assert len(ended.stderr.splitlines()) == 1
    assert "argument --mesh:" in ended.stderr
