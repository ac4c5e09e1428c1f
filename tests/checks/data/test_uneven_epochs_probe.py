from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.uneven_epochs import Epoch, Observer
from ddpcheck.watch import replicas
from ddpcheck.watch.feeds import Feed


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


def live() -> Any:
    return SimpleNamespace(ddp=SimpleNamespace(_join_config=SimpleNamespace(enable=False)))


def test_batches_are_counted_by_loader_and_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "group_of", both)
    observer, trained, tested = Observer(context_with(watches=True)), Feed(0, None), Feed(1, None)
    observer.on_built(live())
    for feed, count in ((trained, 3), (tested, 2), (trained, 1)):
        observer.on_epoch(feed)
        for _ in range(count):
            observer.on_fed(feed)
            if feed is trained:
                observer.on_loss(0, None)
        if count > 1:
            observer.on_drained(feed)
    first, second = observer.facts().feeds
    assert first.epochs == (Epoch(3, is_over=True), Epoch(1))
    assert second.epochs == (Epoch(2, is_over=True, is_trained=False),)


def test_without_ddp_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
