"""The gates in docs/examples: linted, checked against their schemas, and run where this machine can."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

EXAMPLES = Path(__file__).parent.parent / "docs/examples"
SHELL = sorted([*EXAMPLES.glob("*.sh"), *EXAMPLES.glob("*.sbatch")])
PIPELINES = {
    "github-actions.yml": "vendor.github-workflows",
    "gitlab-ci.yml": "vendor.gitlab-ci",
}
TRAIN = """
import os
import sys
from pathlib import Path

Path(f"trained-{os.environ['RANK']}").touch()
sys.exit(7 * ("fail" in sys.argv))
"""


def tool(*words: str) -> str:
    """Run a linter; returns what it has to say, '' if nothing."""
    program = Path(sys.executable).with_name(words[0])
    ended = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    return ended.stdout + ended.stderr if ended.returncode else ""


@pytest.mark.parametrize("script", SHELL, ids=lambda script: str(script.name))
def test_shell_is_linted(script: Path) -> None:
    assert tool("shellcheck", "--severity=style", "--shell=bash", str(script)) == ""


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.y*ml")), ids=lambda file: str(file.name))
def test_yaml_is_linted(file: Path) -> None:
    rules = "{extends: default, rules: {line-length: {max: 110}}}"
    assert tool("yamllint", "--strict", "--config-data", rules, str(file)) == ""


@pytest.mark.parametrize(("name", "schema"), PIPELINES.items())
def test_pipelines_are_what_their_services_take(name: str, schema: str, tmp_path: Path) -> None:
    check = ("check-jsonschema", "--builtin-schema", schema)
    assert tool(*check, str(EXAMPLES / name)) == ""
    wrong = tmp_path / name
    wrong.write_text(
        (EXAMPLES / name).read_text().replace("script:", "scripts:").replace("runs-on", "runs")
    )
    assert "Schema validation errors" in tool(*check, str(wrong))


def test_the_pods_of_a_job_check_their_node_and_then_the_job() -> None:
    (job,) = yaml.safe_load_all((EXAMPLES / "pytorchjob.yaml").read_text())
    kinds = job["spec"]["pytorchReplicaSpecs"]
    assert {name: each["replicas"] for name, each in kinds.items()} == {"Master": 1, "Worker": 3}
    for each in kinds.values():
        pod = each["template"]["spec"]
        assert pod["initContainers"][0]["command"][:2] == ["ddpcheck", "run"]
        (container,) = pod["containers"]
        assert container["name"] == "pytorch"  # the operator looks for this name
        assert container["args"][0].startswith("torchrun -m ddpcheck run ")


def preflight(folder: Path, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run the gate of a plain shell, with python's own programs in the path."""
    (folder / "train.py").write_text(TRAIN)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [EXAMPLES / "preflight.sh", "train.py", *words],
        cwd=folder,
        env={**os.environ, "PATH": path, "RANKS": "2", **changes},
        capture_output=True,
        text=True,
        check=False,
    )


def trained(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("trained-*"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_machine_that_passes_trains(tmp_path: Path) -> None:
    ended = preflight(tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert trained(tmp_path) == ["trained-0", "trained-1"]


def test_a_machine_that_fails_does_not_train(tmp_path: Path) -> None:
    # An interface that is not there: gloo cannot meet over it.
    ended = preflight(tmp_path, GLOO_SOCKET_IFNAME="nothing0")
    assert ended.returncode in (1, 4), ended.stdout
    assert trained(tmp_path) == []
