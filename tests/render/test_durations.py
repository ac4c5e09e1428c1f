"""What a run spent its seconds on; its golden files are compared in test_golden_files.py."""

from render_samples import check, ranks, report, run

from ddpcheck.render import render
from ddpcheck.render.durations import MOST_CHECKS, duration_lines
from ddpcheck.report import CheckRecord


def lines_of(*checks: CheckRecord, took_s: float = 4.0) -> list[str]:
    return duration_lines(
        report(run(world_size=1, hosts=(), duration_s=took_s), ranks(1, 1), list(checks))
    )


def test_stages_and_checks_come_slowest_first_and_add_up() -> None:
    lines = lines_of(
        check("launch/a", duration_s=0.25),
        check("network/b", duration_s=0.5),
        check("launch/c", duration_s=1.0),
    )
    assert lines[0] == "durations: profile standard, 4.00 s in all; of a check, its slowest rank's"
    assert lines[1:3] == ["    1.25 s  launch, 2 checks", "    0.50 s  network, 1 check"]
    assert lines[3].startswith("    2.25 s  outside of checks: ")
    assert [line.split()[-1] for line in lines[5:]] == ["launch/c", "network/b", "launch/a"]


def test_what_was_skipped_or_only_judged_took_no_time() -> None:
    skipped, judged = check("network/b", outcome="skip"), check("ranks/lost", duration_s=0.0)
    assert len(lines_of(skipped, judged)) == len(lines_of())


def test_of_many_checks_the_fastest_are_counted() -> None:
    checks = [check(f"launch/c{each}", duration_s=0.5) for each in range(MOST_CHECKS + 3)]
    assert lines_of(*checks)[-1] == "    1.50 s  3 faster checks together"


def test_slowest_ranks_of_all_checks_may_take_longer_than_the_run() -> None:
    assert lines_of(check("launch/a", duration_s=9.0))[2].startswith("    0.00 s  outside")


def test_it_is_the_text_with_a_section_before_the_verdict() -> None:
    told = report(run(world_size=1, hosts=()), ranks(1, 1), [check("launch/a")])
    plain, more = (render(told, each, "out/report.json") for each in ("text", "durations"))
    before, _, verdict = plain.rpartition("\n\n")
    assert more.startswith(before)
    assert more.endswith(verdict)
    assert "durations: " in more.removeprefix(before).removesuffix(verdict)
