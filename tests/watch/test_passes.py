from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.data.ran_out_first import Observer as RanOutFirst
from ddpcheck.checks.gradients.backward_skipped import Observer as BackwardSkipped
from ddpcheck.checks.gradients.step_skipped import Observer as StepSkipped
from ddpcheck.measures.passes import Passes
from ddpcheck.watch import passes
from ddpcheck.watch.passes import StepPasses


def both(_ddp: object) -> tuple[int, int]:
    return 0, 1


@pytest.fixture(autouse=True)
def _of_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "group_of", both)


def trained(*, syncs: bool = True) -> Any:
    return SimpleNamespace(
        ddp=SimpleNamespace(
            require_backward_grad_sync=syncs,
            parameters=list,
            _join_config=SimpleNamespace(enable=False),
        )
    )


def tell(counted: StepPasses, *events: str) -> None:
    for event in events:
        if event == "step":
            counted.on_step(0)
        else:
            getattr(counted, f"on_{event}")(0, SimpleNamespace(grad_fn=None))


def test_passes_are_counted_by_step_and_all_together() -> None:
    counted = StepPasses()
    tell(counted, "batch")
    counted.on_built(trained())
    tell(counted, "inputs", "batch", "inputs", "loss", "step", "batch", "step")
    assert counted.steps == [Passes(2, 2, 1, 1), Passes(1)]
    assert counted.total == Passes(2, 2, 1, 1)
    assert counted.group == (0, 1)


def test_what_ddp_averages_is_counted_by_itself() -> None:
    counted, live = StepPasses(), trained()
    counted.on_built(live)
    for syncs in (False, True):
        live.ddp.require_backward_grad_sync = syncs
        tell(counted, "inputs", "loss")
    tell(counted, "step")
    assert counted.steps == [Passes(0, 2, 2, 1)]


def test_what_comes_before_the_model_is_of_another_one() -> None:
    counted = StepPasses()
    tell(counted, "loss", "step")
    counted.on_built(trained())
    tell(counted, "inputs", "loss", "step")
    assert counted.steps == [Passes(0, 0, 1), Passes(0, 1, 1, 1)]
    assert counted.total == Passes(0, 1, 1, 1)


@pytest.mark.parametrize("observer", [RanOutFirst, BackwardSkipped, StepSkipped])
def test_without_ddp_they_are_skips(observer: Any) -> None:
    with pytest.raises(Skip, match="DistributedDataParallel"):
        observer(context_with(watches=True)).facts()
    with pytest.raises(Skip, match="ddpcheck watch"):
        observer(context_with()).facts()
