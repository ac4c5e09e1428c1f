from ddpcheck.render.folding import Line, lines_of
from ddpcheck.report import CheckOutcome, CheckRecord


def record(
    name: str, outcome: CheckOutcome, reason: str = "", stage: str = "devices", summary: str = ""
) -> CheckRecord:
    return CheckRecord(
        id=name,
        stage=stage,
        title="It is so",
        outcome=outcome,
        reason=reason,
        summary=summary,
        duration_s=0.5,
    )


def skipped(*names: str, reason: str = "no GPU", stage: str = "devices") -> list[CheckRecord]:
    return [record(name, CheckOutcome.SKIP, reason, stage) for name in names]


def test_checks_of_a_stage_that_were_skipped_for_one_reason_share_a_line() -> None:
    assert list(lines_of(skipped("d/a", "d/b", "d/c"))) == [
        Line(CheckOutcome.SKIP, "3 devices checks", None, "no GPU")
    ]


def test_those_that_passed_without_a_word_share_one_and_the_others_keep_theirs() -> None:
    quiet = [record(name, CheckOutcome.PASS) for name in ("d/a", "d/b", "d/d")]
    told = record("d/c", CheckOutcome.PASS, summary="8 GPUs")
    lines = list(lines_of([*quiet[:2], told, quiet[2]]))
    assert [(line.name, line.duration_s) for line in lines] == [
        ("3 devices checks", 1.5),
        ("d/c", 0.5),
    ]


def test_what_differs_in_reason_or_stage_or_is_a_pair_keeps_its_line() -> None:
    checks = [
        *skipped("d/a", "d/b"),
        *skipped("d/c", reason="NVML is absent"),
        *skipped("n/a", stage="network"),
    ]
    assert [line.name for line in lines_of(checks)] == ["d/a", "d/b", "d/c", "n/a"]


def test_what_failed_or_crashed_is_always_named() -> None:
    for outcome in (CheckOutcome.FAIL, CheckOutcome.ERROR):
        checks = [record(name, outcome) for name in ("d/a", "d/b", "d/c")]
        assert len(list(lines_of(checks))) == len(checks)
