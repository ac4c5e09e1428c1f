"""Two real ranks whose script tells its secrets: no byte of the run directory, nor the verdict, does."""

from pathlib import Path

from real_ranks import command

from ddpcheck.report import read_report

SCRIPT = Path(__file__).parent / "shouting_script.py"
# One without a shape of its own, of which only the variable's name speaks; and one of each other way.
PLAIN = "correct horse battery staple"
PASSWORD = "pl0ugh/twice"
SHAPED = "hf_" + "Qz7" * 11
NAMED = "d0ntTellAnybody"
NCCL_VALUE = "https://me:plover42@proxy:8080"
SECRETS = (PLAIN, PASSWORD, SHAPED, NAMED, "plover42")


def test_no_secret_reaches_a_file_or_the_verdict(tmp_path: Path) -> None:
    ended = command(
        tmp_path / "out",
        *("ddpcheck", "watch", "--nproc-per-node", "2", "--report-dir", str(tmp_path / "out")),
        *(str(SCRIPT), "--hub", SHAPED, "--api-key", NAMED),
        HUB_TOKEN=PLAIN,
        DB_PASSWORD=PASSWORD,
        NCCL_PROXY=NCCL_VALUE,
    )
    report = read_report(tmp_path / "out" / "latest")
    # It did raise, and that is told.
    (raised,) = [each for each in report.findings if each.id == "gradients/step-raised"]
    assert "PermissionError: the hub refused *** of https://***@db/x" in raised.message
    assert "--hub '***' --api-key '***'" in report.run.command
    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert {file.suffix for file in files} >= {".json", ".jsonl", ".box", ".stack"}
    told = [(str(file), file.read_bytes()) for file in files] + [("stdout", ended.stdout.encode())]
    leaks = [
        (name, secret) for name, content in told for secret in SECRETS if secret.encode() in content
    ]
    assert leaks == []
