from types import ModuleType
from typing import Any

import msgspec
import pytest

from ddpcheck.catalogue import catalogue, validated
from ddpcheck.check import Check, Profile, Stage
from ddpcheck.engine.plan import probe_deadline_s, steps_of

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


def test_nothing_to_run_is_no_step() -> None:
    assert steps_of([]) == ()


def test_stages_come_in_their_order_whatever_the_checks_order() -> None:
    steps = steps_of([WATCHER, NETWORK, LAUNCH, PROBE])
    assert [step.stage for step in steps] == [Stage.LAUNCH, Stage.NETWORK, Stage.REHEARSAL]
    assert [step.checks for step in steps] == [(LAUNCH,), (NETWORK,), (WATCHER, PROBE)]


def test_observers_and_probes_are_told_apart() -> None:
    (step,) = steps_of([WATCHER, PROBE])
    assert (step.observers, step.probes) == ((WATCHER,), (PROBE,))


def test_every_check_of_the_catalogue_is_in_one_step() -> None:
    steps = steps_of(catalogue())
    assert [check for step in steps for check in step.checks] == list(catalogue())
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
    assert probe_deadline_s(60.0, Profile.QUICK, 8) == pytest.approx(60.0, rel=0.01)


def test_a_full_run_and_a_large_world_have_longer() -> None:
    standard = probe_deadline_s(10.0, Profile.STANDARD, 1024)
    assert standard == pytest.approx(20.0)
    assert probe_deadline_s(10.0, Profile.STANDARD, 10_240) == pytest.approx(110.0)
    assert probe_deadline_s(10.0, Profile.FULL, 1024) == 8 * standard


@pytest.mark.parametrize("profile", Profile)
def test_every_profile_has_a_deadline_that_grows_with_the_world(profile: Profile) -> None:
    deadlines = [probe_deadline_s(1.0, profile, world) for world in (1, 2, 64, 1024, 100_000)]
    assert deadlines == sorted(deadlines)
    assert deadlines[0] >= 1.0
