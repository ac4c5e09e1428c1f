from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.uneven_epochs import Observer
from ddpcheck.measures.epochs import Epoch
from ddpcheck.watch import epochs
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.stream import EventStream


def emit(observer: Observer, event: str, *told: Any) -> None:
    EventStream({"it": observer}).emit(event, *told)


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


def live() -> Any:
    return SimpleNamespace(ddp=SimpleNamespace(_join_config=SimpleNamespace(enable=False)))


def test_batches_are_counted_by_loader_and_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "group_of", both)
    observer, trained, tested = Observer(context_with(watches=True)), Feed(0, None), Feed(1, None)
    emit(observer, "built", live())
    for feed, count in ((trained, 3), (tested, 2), (trained, 1)):
        emit(observer, "epoch", feed)
        for _ in range(count):
            emit(observer, "fed", feed)
            if feed is trained:
                emit(observer, "loss", 0, None)
        if count > 1:
            emit(observer, "drained", feed)
    first, second = observer.facts().feeds
    assert first.epochs == (Epoch(3, is_over=True, fetched=3), Epoch(1, fetched=1))
    assert second.epochs == (Epoch(1, is_over=True, is_trained=False, fetched=2),)


def test_batches_that_are_left_out_or_only_fetched_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(epochs, "group_of", both)
    observer, feed = Observer(context_with(watches=True)), Feed(0, None)
    emit(observer, "built", live())
    emit(observer, "epoch", feed)
    for use in ("loss", "inputs"):
        emit(observer, "fed", feed)
        emit(observer, "fed", feed)
        emit(observer, use, 0, None)
    emit(observer, "fed", feed)
    assert observer.facts().feeds[0].epochs == (Epoch(2, fetched=5),)


def test_without_ddp_it_is_a_skip() -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        Observer(context_with(watches=True)).facts()
