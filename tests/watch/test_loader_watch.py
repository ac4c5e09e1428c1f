from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from ddpcheck.measures.loader import Loader
from ddpcheck.watch.feeds import Feed
from ddpcheck.watch.loader import LoaderWatch
from ddpcheck.watch.trained import Watched

PAGE = 4096


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Any:
        return iter(torch.ones(8, 1024))


def data(count: int = 12) -> TensorDataset:
    return TensorDataset(torch.ones(count, 1024), torch.arange(count))


def watched(loader: Any, steps: int = 4, *, keep: bool = False, **events: Any) -> Loader | None:
    """Return what a training of some steps over this loader is seen to do."""
    watch = LoaderWatch(("ancdata",))
    watch.on_built(Watched(nn.Identity(), nn.Identity(), loader, "cpu"))
    kept: list[Any] = []
    batches = iter(loader)
    for step in range(steps):
        batch = next(batches)
        watch.on_batch(step, batch)
        kept = [*kept, batch] if keep else kept
        del batch
    for error in events.values():
        watch.on_raise(steps, error)
    return watch.seen()


def test_batches_of_two_tensors() -> None:
    told = watched(DataLoader(data(), batch_size=2, num_workers=2))
    # Labels fill a page, and the rest of it.
    assert told == Loader(2, 2, 6, 2 * PAGE + PAGE, 2)
    assert told is not None
    assert told.alive_batches == 5


def test_the_largest_batch_counts() -> None:
    told = watched(DataLoader(data(5), batch_size=3, num_workers=1, prefetch_factor=3), 2)
    assert told == Loader(1, 3, 2, 4 * PAGE, 2)


def test_batches_that_are_kept() -> None:
    told = watched(DataLoader(data(), batch_size=2, num_workers=2), keep=True)
    assert told is not None
    assert told.keeps_all
    assert told.alive_batches == 6


def test_elements_of_batches_that_are_kept() -> None:
    # A view of one element keeps the file of the whole batch open.
    kept: list[torch.Tensor] = []
    loader = DataLoader(data(), batch_size=2, num_workers=1)
    watch = LoaderWatch()
    watch.on_built(Watched(nn.Identity(), nn.Identity(), loader, "cpu"))
    for step, batch in enumerate(loader):
        watch.on_batch(step, batch)
        kept.append(batch[1][0])
    told = watch.seen()
    assert told is not None
    assert told.keeps_all == bool(kept)


def test_one_batch_that_is_kept_says_nothing() -> None:
    told = watched(DataLoader(data(), batch_size=2, num_workers=2), 1, keep=True)
    assert told is not None
    assert not told.keeps_all


def test_a_stream_has_no_length() -> None:
    told = watched(DataLoader(Stream(), batch_size=2, num_workers=1), 2, keep=True)
    assert told is not None
    assert (told.epoch_batches, told.alive_batches) == (None, 1000)


@pytest.mark.parametrize("loader", [DataLoader(data()), [torch.ones(2), torch.ones(2)] * 2])
def test_without_workers_there_is_nothing(loader: Any) -> None:
    assert watched(loader, keep=True) is None


def test_before_the_loader_is_there_is_nothing() -> None:
    watch = LoaderWatch()
    watch.on_raise(0, RuntimeError("wrapping failed"))
    assert watch.seen() is None


def collated_with_words(samples: list[Any]) -> dict[str, Any]:
    return {"names": ["a"] * len(samples), "data": default_collate(samples), "none": None}


def test_what_is_no_tensor_takes_no_room() -> None:
    loader = DataLoader(
        data(), batch_size=2, num_workers=1, collate_fn=collated_with_words, shuffle=True
    )
    told = watched(loader)
    assert told is not None
    assert (told.batch_bytes, told.batch_tensors) == (3 * PAGE, 2)


def sparse(_samples: list[Any]) -> torch.Tensor:
    return torch.eye(3).to_sparse()


def test_what_has_no_memory_of_its_own_is_passed_over() -> None:
    told = watched(DataLoader(data(), batch_size=2, num_workers=1, collate_fn=sparse))
    assert told is not None
    assert (told.batch_bytes, told.keeps_all) == (0, False)


def test_the_line_that_tells_why_is_remembered() -> None:
    loader = DataLoader(data(), batch_size=2, num_workers=1)
    cause = RuntimeError("Traceback\n  File x\nRuntimeError: received 0 items of ancdata\nbye")
    error = RuntimeError("worker exited")
    error.__cause__ = cause
    told = watched(loader, 1, error=error)
    assert told is not None
    assert told.failure == "RuntimeError: received 0 items of ancdata"
    told = watched(loader, 1, error=RuntimeError("out of luck"))
    assert told is not None
    assert told.failure == ""


def test_workers_that_fail_before_the_first_batch_are_seen() -> None:
    told = watched(
        DataLoader(data(), batch_size=2, num_workers=1), 0, error=OSError("0 items of ancdata")
    )
    assert told is not None
    assert (told.batch_tensors, told.failure) == (0, "0 items of ancdata")


def failing(error: BaseException, asked: Any) -> LoaderWatch:
    """Return what watched a script whose first batch did not come, so that nothing was built."""
    watch = LoaderWatch(("ancdata",))
    watch.on_asked(Feed(0, None, loader=lambda: asked))
    watch.on_raise(0, error)
    return watch


def test_a_loader_whose_first_batch_fails_is_known_from_its_asking() -> None:
    told = failing(RuntimeError("no ancdata"), DataLoader(data(), 2, num_workers=3)).seen()
    assert told == Loader(3, 2, 6, 0, 0, failure="no ancdata")


def test_one_that_is_gone_is_none_and_why_is_told() -> None:
    watch = failing(RuntimeError("no ancdata"), None)
    assert watch.seen() is None
    assert watch.absence == "no loader was seen"
    alone = failing(RuntimeError("x"), DataLoader(data(), 2))
    assert alone.seen() is None
    assert alone.absence == "the loader has no workers"
