"""What is installed is what is in the repository."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
IN_REPOSITORY = (ROOT / ".git").exists() and shutil.which("git") is not None
# Building takes some ten seconds: its tests share one wheel, so one worker has them all.
pytestmark = [
    pytest.mark.skipif(not IN_REPOSITORY, reason="only a repository knows its files"),
    pytest.mark.xdist_group("wheel"),
]


def repository_files(*under: str) -> list[str]:
    """Return the files under these paths that git tracks or would track, sorted."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *under]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return sorted(name for name in set(done.stdout.split("\0")) if (ROOT / name).exists() and name)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names in a wheel built from a copy: the build leaves its traces there."""
    copy = tmp_path_factory.mktemp("copy")
    for name in repository_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    dist = tmp_path_factory.mktemp("dist")
    options = ["--wheel", "--no-isolation", "--outdir", str(dist)]
    subprocess.run(
        [sys.executable, "-m", "build", *options, str(copy)], check=True, capture_output=True
    )
    (wheel,) = dist.glob("*.whl")
    with ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def test_wheel_holds_every_check(names: list[str]) -> None:
    wanted = [f"ddpcheck/{name}" for name in repository_files("checks/*.py")]
    assert [name for name in names if name.startswith("ddpcheck/checks/")] == wanted


def test_wheel_holds_the_whole_program(names: list[str]) -> None:
    files = ("ddpcheck/*.py", "ddpcheck/py.typed", "ddpcheck/templates/*.txt")
    wanted = set(repository_files(*files, "ddpcheck/render/page/templates"))
    assert wanted <= set(names)


def test_wheel_puts_nothing_else_into_site_packages(names: list[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("ddpcheck-")} == {"ddpcheck"}


def test_wheel_offers_the_command(names: list[str]) -> None:
    assert any(name.endswith(".dist-info/entry_points.txt") for name in names)
