"""The example package of checks, installed for real: its check is one like the others."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from findings import of
from real_ranks import clean_environment

from ddpcheck.errors import ExitCode
from ddpcheck.report import Verdict, read_report

ROOT = Path(__file__).parent.parent
EXAMPLE = Path(__file__).parent / "example_plugin"
ID = "environment/full-scratch"
MODULE = "ddpcheck_example/environment/full_scratch.py"
# Installing takes seconds: the tests share it, so one worker has them all.
pytestmark = pytest.mark.xdist_group("plug-in")


def python(site: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``python WORDS`` where the packages of ``site`` are installed beside ddpcheck."""
    path = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**clean_environment(), "PYTHONPATH": path, **more},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def ddpcheck(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ddpcheck where the disk of the folder is the scratch disk."""
    return python(site, folder, "-m", "ddpcheck", *words, SCRATCH=str(folder))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where pip has installed the example, from a copy: building leaves its traces."""
    copy = tmp_path_factory.mktemp("example") / "example_plugin"
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(copy)], check=True)
    return site


@pytest.fixture
def broken(installed: Path, tmp_path: Path) -> Path:
    """Return a copy of what is installed, to be broken."""
    return Path(shutil.copytree(installed, tmp_path / "site"))


def test_it_is_listed_and_explained(installed: Path, tmp_path: Path) -> None:
    listed = ddpcheck(installed, tmp_path, "list")
    (line,) = [line for line in listed.stdout.splitlines() if line.startswith(ID)]
    assert line.split(maxsplit=2)[1:] == [
        "environment",
        "The scratch folder of a host is nearly full",
    ]
    explained = ddpcheck(installed, tmp_path, "explain", ID)
    assert "let SCRATCH name a folder with more room" in explained.stdout
    assert "LEAST_BYTES = 67108864" in explained.stdout
    assert (listed.returncode, explained.returncode) == (0, 0)


def test_it_runs_and_stands_in_the_report(installed: Path, tmp_path: Path) -> None:
    ran = ddpcheck(installed, tmp_path, "run", "--select", ID)
    assert ran.returncode == 0, ran.stderr
    report = read_report(tmp_path / "reports/latest")
    assert report.verdict is Verdict.PASS
    assert sorted(rank for fact in report.facts[ID] for rank in fact.ranks) == [0, 1]
    assert f"pass   {ID}" in ran.stdout
    assert "bytes free at least" in ran.stdout


def test_a_settings_file_reaches_it(installed: Path, tmp_path: Path) -> None:
    settings = [
        f'select = ["{ID}"]',
        f'severity."{ID}" = "error"',
        f'thresholds."{ID}".LEAST_BYTES = 1_000_000_000_000_000_000',
    ]
    (tmp_path / "ddpcheck.toml").write_text("\n".join(settings))
    ran = ddpcheck(installed, tmp_path, "run")
    assert ran.returncode == ExitCode.FINDINGS, ran.stderr
    finding = of(read_report(tmp_path / "reports/latest"), ID)
    assert (finding.severity.value, finding.ranks) == ("error", (0, 1))
    assert "limit 1000000000000000000" in finding.message


def test_its_own_tests_pass_where_it_is_installed(installed: Path, tmp_path: Path) -> None:
    tests = shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    ran = python(installed, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("import shutil", "import shutle", "cannot be imported: ModuleNotFoundError: No module"),
        ("import shutil", "import shutil)", "cannot be imported: SyntaxError: unmatched ')'"),
        ("import shutil", "import sys\nsys.exit(0)", "cannot be imported: SystemExit: 0"),
        ("import shutil", "import shutil\n1 / 0", "cannot be imported: ZeroDivisionError"),
        ("def judge", "def guess", f"{ID}: needs a function judge"),
        ("Why it matters", "Why", f"{ID}: the docstring lacks the section 'Why it matters'"),
    ],
)
def test_a_broken_one_is_one_line_that_names_it(
    old: str, new: str, told: str, broken: Path, tmp_path: Path
) -> None:
    file = broken / MODULE
    file.write_text(file.read_text().replace(old, new, 1))
    for words in (["list"], ["run", "--profile", "quick"]):
        ran = ddpcheck(broken, tmp_path, *words)
        assert (ran.returncode, ran.stdout) == (ExitCode.INTERNAL, "")
        (line,) = ran.stderr.splitlines()
        assert line.startswith("ddpcheck: the plug-in ddpcheck-example 1.0")
        assert told in line


def test_a_family_that_cannot_be_imported_is_not_left_out(broken: Path, tmp_path: Path) -> None:
    (broken / MODULE).with_name("__init__.py").write_text("import absent_module")
    ran = ddpcheck(broken, tmp_path, "list")
    (line,) = ran.stderr.splitlines()
    assert "the plug-in ddpcheck-example 1.0 cannot be imported: ModuleNotFoundError" in line


def test_a_package_that_is_gone_is_named(broken: Path, tmp_path: Path) -> None:
    shutil.rmtree(broken / "ddpcheck_example")
    (line,) = ddpcheck(broken, tmp_path, "list").stderr.splitlines()
    assert "ddpcheck-example 1.0 cannot be imported: ModuleNotFoundError" in line


def test_a_check_with_the_id_of_another_names_both(broken: Path, tmp_path: Path) -> None:
    (broken / MODULE).rename((broken / MODULE).with_name("low_memory.py"))
    (line,) = ddpcheck(broken, tmp_path, "list").stderr.splitlines()
    assert line.startswith(
        "ddpcheck: two checks have the id environment/low-memory, of ddpcheck and of the plug-in "
        "ddpcheck-example 1.0"
    )


def test_a_training_does_without_the_catalogue(broken: Path, tmp_path: Path) -> None:
    (broken / MODULE).write_text("raise RuntimeError")
    ran = ddpcheck(broken, tmp_path, "train", "--from", "absent.json")
    assert (ran.returncode, ran.stderr.count("\n")) == (ExitCode.USAGE, 1)
