from types import ModuleType
from typing import Any

import msgspec
import pytest

from ddpcheck.catalogue import catalogue, validated
from ddpcheck.check import Check, Profile, Stage
from ddpcheck.engine.plan import probe_deadline_s, silence_s, steps_of
from ddpcheck.measures.testimony import Testimony

MANUAL = "A fault.\n\nWhy it matters\n    x\nWhat to do\n    y\n"


class Facts(msgspec.Struct, frozen=True):
    number: int


def made(check_id: str, **changed: Any) -> Check:
    module = ModuleType(f"ddpcheck.checks.{check_id.replace('/', '.')}", MANUAL)
    module.__dict__.update({"Facts": Facts, "judge": print, **(changed or {"probe": print})})
    return validated(module)


LAUNCH = made("launch/a")
NETWORK = made("network/a")
PROBE = made("gradients/a")
WATCHER = made("gradients/b", Observer=object)
INQUEST = made("ranks/a", Facts=Testimony)


def test_nothing_to_run_is_no_step() -> None:
    assert steps_of([]) == ()


def test_stages_come_in_their_order_whatever_the_checks_order() -> None:
    steps = steps_of([WATCHER, NETWORK, LAUNCH, PROBE])
    assert [step.stage for step in steps] == [Stage.LAUNCH, Stage.NETWORK, Stage.REHEARSAL]
    assert [step.checks for step in steps] == [(LAUNCH,), (NETWORK,), (WATCHER, PROBE)]


def test_observers_and_probes_are_told_apart() -> None:
    (step,) = steps_of([WATCHER, PROBE])
    assert (step.observers, step.probes) == ((WATCHER,), (PROBE,))


def test_what_judges_the_ranks_measures_in_no_step() -> None:
    assert steps_of([INQUEST]) == ()
    assert [step.checks for step in steps_of([INQUEST, LAUNCH])] == [(LAUNCH,)]


def test_every_check_of_the_catalogue_that_measures_is_in_one_step() -> None:
    steps = steps_of(catalogue())
    measuring = [check for check in catalogue() if not check.is_inquest]
    assert [check for step in steps for check in step.checks] == measuring
    assert len({step.stage for step in steps}) == len(steps)
    assert all(check.stage is step.stage for step in steps for check in step.checks)
    assert all({*step.observers, *step.probes} == set(step.checks) for step in steps)


@pytest.mark.parametrize(
    ("checks", "deadline_s"),
    [([LAUNCH], 20.0), ([WATCHER], 10.0), ([WATCHER, PROBE], 20.0), ([PROBE, PROBE, PROBE], 40.0)],
)
def test_a_stage_may_take_what_its_probes_may_and_once_more(
    checks: list[Check], deadline_s: float
) -> None:
    (step,) = steps_of(checks)
    assert step.deadline_s(10.0) == deadline_s


def test_a_small_run_has_the_deadline_that_was_asked_for() -> None:
    assert probe_deadline_s(60.0, Profile.STANDARD, 2) == pytest.approx(60.0, rel=0.01)
    assert probe_deadline_s(60.0, Profile.QUICK, 8) == pytest.approx(60.0, rel=0.02)


@pytest.mark.parametrize(
    ("world", "deadline_s"), [(1024, 20.0), (3 * 1024, 30.0), (1023 * 1024, 110.0)]
)
def test_the_deadline_doubles_with_1024_ranks_and_then_grows_ever_slower(
    world: int, deadline_s: float
) -> None:
    assert probe_deadline_s(10.0, Profile.STANDARD, world) == pytest.approx(deadline_s)


def test_a_full_run_has_longer() -> None:
    standard = probe_deadline_s(10.0, Profile.STANDARD, 1024)
    assert probe_deadline_s(10.0, Profile.FULL, 1024) == 8 * standard


def test_a_mistyped_world_size_does_not_make_the_run_wait_for_ever() -> None:
    assert probe_deadline_s(60.0, Profile.STANDARD, 10**9) < 60.0 * 22


@pytest.mark.parametrize("profile", Profile)
def test_every_profile_has_a_deadline_that_grows_with_the_world(profile: Profile) -> None:
    deadlines = [probe_deadline_s(1.0, profile, world) for world in (1, 2, 64, 1024, 100_000)]
    assert deadlines == sorted(deadlines)
    assert deadlines[0] >= 1.0


@pytest.mark.parametrize("deadline_s", [0.5, 3.0, 60.0])
def test_a_rank_falls_silent_soon_after_the_deadline_of_any_check(deadline_s: float) -> None:
    assert deadline_s < silence_s(deadline_s) < deadline_s + 1.0
