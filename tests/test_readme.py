from pathlib import Path

from readme_parts import PAGES, README, ROOT, pages, replaced

from ddpcheck.errors import ExitCode


def test_generated_parts_are_up_to_date() -> None:
    text = README.read_text()
    assert replaced(text) == text, "run python tests/readme_parts.py"


def test_each_check_has_its_page_and_no_other_has() -> None:
    written = {file: file.read_text() for file in PAGES.rglob("*.md")}
    assert written == pages(), "run python tests/readme_parts.py"


def test_ci_runs_the_two_commands_of_the_readme() -> None:
    script = (ROOT / ".ci/run").read_text()
    assert 'bash -euo pipefail -c "$(block 1)"' in script
    assert 'bash -euo pipefail -c "$(block 2)"' in script
    blocks = README.read_text().split("```sh\n")[1:3]
    assert "ddpcheck run" in blocks[0]
    assert "pytest" in blocks[1]


def test_every_exit_code_is_documented() -> None:
    text = README.read_text()
    for code in ExitCode:
        assert f"| {code.value} |" in text


def test_samples_named_in_reports_exist() -> None:
    for line in (ROOT / "reports/README.md").read_text().splitlines():
        if line.startswith("| `"):
            folder = Path(line.split("`")[1])
            assert (ROOT / "reports/samples" / folder / "report.json").is_file(), folder
