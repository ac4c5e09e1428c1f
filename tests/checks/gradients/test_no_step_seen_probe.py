"""What the observer notes of a rank that may never be to train."""

from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.checks.gradients.no_step_seen import Facts, Observer
from ddpcheck.watch import replicas
from ddpcheck.watch.meetings import Called


def test_the_observer_notes_who_is_to_train() -> None:
    observer = Observer(context_with())
    observer.on_called(Called("all_reduce", 0.0))
    assert not observer.facts().prepared
    observer.on_called(Called("DistributedDataParallel", 0.0))
    assert observer.facts().prepared


def test_who_sends_what_it_computed_works_for_others() -> None:
    observer = Observer(context_with())
    observer.on_called(Called("backward", 0.0))
    assert not observer.facts().works
    observer.on_passed((0, 1))
    facts = observer.facts()
    assert (facts.works, facts.prepared) == (True, False)


def test_the_observer_notes_optimizers_and_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def pair(_ddp: object) -> tuple[int, ...]:
        return (0, 1)

    monkeypatch.setattr(replicas, "group_of", pair)
    observer = Observer(context_with())
    observer.on_optimizing(object(), None)
    live: Any = SimpleNamespace(ddp=object())
    observer.on_built(live)
    assert observer.facts() == Facts(0, prepared=True, group=(0, 1))
