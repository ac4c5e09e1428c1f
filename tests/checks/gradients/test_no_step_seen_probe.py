"""What the observer notes of a rank that may never be to train."""

from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.checks.gradients.no_step_seen import Facts, Observer
from ddpcheck.watch import replicas
from ddpcheck.watch.meetings import Called


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("all_reduce", (False, False)),
        ("backward", (False, True)),
        ("DistributedDataParallel", (True, False)),
    ],
)
def test_the_observer_notes_who_is_to_train(name: str, told: tuple[bool, bool]) -> None:
    observer = Observer(context_with())
    observer.on_called(Called(name, 0.0))
    facts = observer.facts()
    assert (facts.prepared, facts.backward) == told


def test_the_observer_notes_optimizers_and_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(_ddp: object) -> tuple[int, ...]:
        return (0, 1)

    monkeypatch.setattr(replicas, "group_of", pair)
    observer = Observer(context_with())
    observer.on_optimizing(object(), None)
    live: Any = SimpleNamespace(ddp=object())
    observer.on_built(live)
    assert observer.facts() == Facts(0, prepared=True, group=(0, 1))
