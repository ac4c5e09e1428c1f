"""The device of a watched script may be known only after something was told of it."""

from types import SimpleNamespace
from typing import Any

from contexts import context_with

from ddpcheck.engine.watching import WatchWork


def watching() -> WatchWork:
    """Return the work of a rank whose script split its data before it asked for a GPU."""
    work = object.__new__(WatchWork)
    work.context = context_with(device="cpu", watches=True)
    vars(work)["whereabouts"] = SimpleNamespace(standstill=None)
    return work


def module_on(device: str) -> Any:
    return SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=device)]))


def test_a_model_that_is_placed_tells_the_device() -> None:
    work = watching()
    work.on_placed(module_on("cuda:1"))
    assert (work.context.device, work.context.on_gpu) == ("cuda:1", True)
    assert vars(work.whereabouts.standstill)["_on_gpu"]


def test_so_does_one_that_was_not_placed() -> None:
    work = watching()
    live: Any = SimpleNamespace(device="cuda:0")
    work.on_built(live)
    assert work.context.on_gpu


def test_the_same_device_changes_nothing() -> None:
    work = watching()
    work.on_placed(module_on("cpu"))
    work.on_placed(SimpleNamespace(parameters=lambda: iter(())))
    assert work.whereabouts.standstill is None
