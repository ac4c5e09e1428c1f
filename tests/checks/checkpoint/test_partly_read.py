from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from contexts import context_with

from ddpcheck.check import Skip
from ddpcheck.checks.checkpoint.partly_read import Facts, Observer, judge, summarize
from ddpcheck.finding import Location, Severity

LINE = Location("/train.py", 44, "load")


@dataclass
class Held:
    """What torch notes of a tensor in a checkpoint."""

    size: tuple[int, ...] = (8, 8)
    is_floating_point: bool = True
    properties: Any = field(init=False)

    def __post_init__(self) -> None:
        self.properties = SimpleNamespace(
            dtype=SimpleNamespace(is_floating_point=self.is_floating_point)
        )


def layers(depth: int, start: int = 0, prefix: str = "model") -> dict[str, Any]:
    names = ("weight", "bias")
    return {f"{prefix}.layers.{n}.{name}": Held() for n in range(start, depth) for name in names}


HEAD = {"model.head.weight": Held((8, 3)), "model.head.bias": Held((3,))}
OPTIMIZER: dict[str, Any] = {
    **{f"optim.state.layers.{n}.weight.exp_avg": Held() for n in range(4)},
    "optim.param_groups.0.lr": object(),
}
SAVED = {**layers(4), **HEAD}


def seen(held: dict[str, Any], *asked: set[str]) -> Facts:
    """Return what a rank tells of reading these parts, one after the other."""
    observer = Observer(context_with(watches=True))
    for names in asked:
        observer.on_read(held, frozenset(names), LINE)
    return observer.facts()


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        pytest.param(SAVED, [set(SAVED)], id="all of it"),
        pytest.param(SAVED, [set(layers(4))], id="the body without its head"),
        pytest.param(SAVED | OPTIMIZER, [set(SAVED)], id="the model without its optimizer"),
        pytest.param(
            SAVED | OPTIMIZER,
            [set(SAVED), {"optim.state.layers.3.weight.exp_avg"}],
            id="an optimizer of the last layer alone",
        ),
        pytest.param(SAVED, [set(layers(4)), set(HEAD)], id="in two parts"),
        pytest.param(
            SAVED | layers(4, prefix="ema"), [set(SAVED)], id="the model without its average"
        ),
        pytest.param(
            SAVED | {f"rng.{rank}": Held((5056,), is_floating_point=False) for rank in range(4)},
            [{*SAVED, "rng.0"}],
            id="the random state of one rank",
        ),
        pytest.param(
            {"0.weight": Held((8, 4)), "2.weight": Held((3, 8))},
            [{"0.weight"}],
            id="layers in a row without the last one",
        ),
        pytest.param(
            SAVED | {"model.layers.0.adapter.weight": Held((2, 8))}, [set(SAVED)], id="an adapter"
        ),
        pytest.param({"step": object(), "loss": Held(())}, [{"step"}], id="a number"),
    ],
)
def test_silent(held: dict[str, Any], asked: list[set[str]]) -> None:
    assert judge(dict.fromkeys(range(2), seen(held, *asked))) == []


def test_nothing_was_read() -> None:
    assert judge(dict.fromkeys(range(2), seen(SAVED))) == []


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        (set(layers(2)), 4),
        (set(SAVED) - {"model.head.bias"}, 1),
        ({name for name in SAVED if "bias" not in name}, 5),
    ],
)
def test_weights_whose_like_were_read_are_a_warning(asked: set[str], left: int) -> None:
    (finding,) = judge(dict.fromkeys(range(2), seen(SAVED | OPTIMIZER, asked)))
    assert (finding.severity, finding.ranks) == (Severity.WARNING, (0, 1))
    assert finding.location == LINE
    assert finding.title == f"{left} weights in a checkpoint were never read"
    assert "of 10 weights" in finding.message


def test_ranks_that_read_a_part_each_read_all_of_it() -> None:
    parts = [set(layers(2)), set(layers(4, 2))]
    facts = {rank: seen(layers(4), part) for rank, part in enumerate(parts)}
    assert judge(facts) == []
    (finding,) = judge({0: facts[0]})
    assert "model.layers.2.bias" in finding.message


def test_summary_and_skip() -> None:
    assert summarize({0: seen(SAVED, set(SAVED))}) == "1 distributed checkpoints read"
    with pytest.raises(Skip):
        Observer(context_with()).facts()
