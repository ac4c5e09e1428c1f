"""Whatever field a secret hides in, no file of a run and no format of a report shows it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import AROUND, SECRETS
from two_reports import told

from ddpcheck.engine.assembly import assemble
from ddpcheck.engine.blackbox import BlackBox
from ddpcheck.engine.entries import (
    Began,
    Crashed,
    Entry,
    Journal,
    Measured,
    Present,
    Skipped,
    Testified,
)
from ddpcheck.engine.loading import loaded
from ddpcheck.engine.rundir import keep_report, make_run_dir, note_start
from ddpcheck.finding import Finding, Location, Recommendation
from ddpcheck.measures.testimony import State, Testimony
from ddpcheck.render import formats, render
from ddpcheck.report import (
    CheckOutcome,
    CheckRecord,
    LastSeen,
    RankRecord,
    Report,
    Run,
    add_training,
    to_json,
)

CHECK = "launch/conflicting-launchers"
RUN = told().run
PRESENT = Present(
    rank=0,
    local_rank=0,
    world_size=2,
    host="node1",
    pid=7,
    gpus=0,
    backend="gloo",
    launcher="torchrun",
    versions={"torch": "2.13.0"},
)


def entries(text: str) -> list[Entry]:
    """Return one of each kind of entry, with the text in all that a rank tells."""
    facts = {"variables": {"A": text, text: "b"}, "words": ["x", text, ["y", text]], "n": 0.5}
    testimony = Testimony(state=State.RAISED, check=CHECK, error=text, stack=text, ended_by=text)
    return [
        msgspec.structs.replace(PRESENT, host=text, versions={"torch": text}),
        Began(text, 0.0),
        Measured(CHECK, facts, 0.1),
        Skipped(CHECK, text),
        Crashed(CHECK, text, text),
        Testified(testimony),
    ]


def run_of(text: str) -> Run:
    return msgspec.structs.replace(
        RUN, command=text, target=text, hosts=[text], versions={"torch": text}
    )


def finding_of(text: str) -> Finding:
    return Finding(
        id=CHECK,
        title=text,
        message=text,
        fix=text,
        ranks=(0,),
        location=Location(text, 3, text),
        evidence={"a": text, text: [text], "m": {text: text}},
    )


def report_of(text: str) -> Report:
    """Return a report as an older version may have written it, with the text in every field."""
    return msgspec.structs.replace(
        told(),
        run=run_of(text),
        ranks=[RankRecord(rank=0, host=text, reason=text, last_seen=LastSeen(text, text))],
        checks=[
            CheckRecord(
                id=CHECK,
                stage="launch",
                title=text,
                outcome=CheckOutcome.ERROR,
                reason=text,
                summary=text,
            )
        ],
        findings=[finding_of(text)],
        recommendation={"backend": Recommendation(text, text)},
        training={"checkpoint": text, "loss": [[0, text]]},
        later={"weather": {"sky": [text]}},
    )


def files_of(folder: Path) -> bytes:
    return b"\n".join(
        str(file).encode() + b"\n" + file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    )


@settings(deadline=None, max_examples=40)
@given(SECRETS, AROUND)
def test_what_ranks_tell_reaches_no_file(planted: tuple[str, str], around: str) -> None:
    secret, text = planted[0], around.format(planted[1])
    with TemporaryDirectory() as folder:
        run_dir = make_run_dir(folder, "ddpcheck-x")
        note_start(run_of(text), run_dir)
        for seat in range(2):
            journal = Journal(run_dir, seat)
            journal.write(
                [
                    msgspec.structs.replace(each, rank=seat)
                    if seat and isinstance(each, Present)
                    else each
                    for each in entries(text)
                ]
            )
            box = BlackBox(run_dir / "ranks" / f"{seat}.box")
            box.enter_check(text)
            box.leave_call(box.enter_call(text, text))
            (run_dir / "ranks" / f"{seat}.stack").write_text(text)
        report = assemble(run_dir, {1: text})
        keep_report(report, run_dir)
        add_training(run_dir, {"checkpoint": text, text: [text]})
        shown = "".join(render(loaded(str(run_dir)), each) for each in formats())
        assert secret.encode() not in files_of(run_dir)
        assert secret not in shown
        assert b"***" in files_of(run_dir)


@settings(deadline=None, max_examples=40)
@given(SECRETS, AROUND)
def test_an_old_report_is_shown_without_its_secrets(planted: tuple[str, str], around: str) -> None:
    secret, text = planted[0], around.format(planted[1])
    with TemporaryDirectory() as folder:
        (Path(folder) / "report.json").write_bytes(to_json(report_of(text)))
        assert "***" in to_json(loaded(folder)).decode()
        for each in formats():
            assert secret not in render(loaded(folder), each)


@settings(deadline=None, max_examples=60)
@given(st.text("0123456789abcdef", min_size=8, max_size=64), st.integers(0, 1 << 40))
def test_digests_numbers_and_ids_stay(digest: str, number: int) -> None:
    facts = {"digest": digest, "pid": number, "weights": {"key.weight": [digest, 0.5]}}
    texts = (digest, f"sha {digest} pid {number}", f"{digest}/{number}", f"GPU-{digest}")
    facts |= {text: text for text in texts}
    with TemporaryDirectory() as folder:
        journal = Journal(Path(folder), 0)
        journal.write([Measured(CHECK, facts, 0.1)])
        assert msgspec.json.decode(journal.path.read_bytes())["facts"] == facts
