"""What datasets are made of: equal where they hold the same, unknown where they may hold anything."""

from __future__ import annotations

import io
import random
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from ddpcheck.watch.contents import KEPT_COUNT, content_of

X = torch.randn(600, 64, generator=torch.Generator().manual_seed(1))


class Holding:
    def __init__(self, *held: Any) -> None:
        self.held = held


class Mode(Enum):
    NEAREST = 1
    LINEAR = 2


def flip(x: Any) -> Any:
    return x


def bound_to(root: str) -> Callable[[], str]:
    return lambda: root


def with_default(at: int, root: str = "a") -> str:
    return f"{root}/{at}"


def in_order() -> dict[str, dict[str, list[int]]]:
    return OrderedDict(a=defaultdict[str, list[int]](list, b=[1]))


def flipped() -> Any:
    return nn.Sequential(nn.Dropout(), nn.Flatten())


HELD: list[Callable[[], Any]] = [
    X.clone,
    X.numpy().copy,
    X[:, 0].tolist,
    lambda: [(f"{at}.png", at % 3) for at in range(900)],
    lambda: {"b": {1, 2, 3}, "a": Path("data")},
    in_order,
    lambda: (flip, Holding(0.5), Mode.NEAREST, np.float32(2), torch.device("cpu"), None),
    lambda: Subset(TensorDataset(X.clone()), [1, 2]),
    lambda: partial(flip, 3),
    flipped,
]


@pytest.mark.parametrize("make", HELD)
def test_equal_contents(make: Callable[[], Any]) -> None:
    told = content_of(Holding(make()))
    assert told
    assert content_of(Holding(make())) == told


def test_other_contents() -> None:
    others = [
        Holding(X),
        Holding(X + 1),
        Holding(X[:599]),
        Holding(X.double()),
        Holding(["a/1.png", "a/2.png"]),
        Holding(["b/1.png", "b/2.png"]),
        Holding("a", ["1.png"]),
        Holding("b", ["1.png"]),
        Holding(Mode.NEAREST),
        Holding(Mode.LINEAR),
        Holding(Holding(1)),
        Holding(Holding(2)),
        Subset(TensorDataset(X), [1, 2]),
        Subset(TensorDataset(X), [1, 3]),
        Holding(partial(flip, 1)),
        Holding(partial(flip, 2)),
    ]
    assert len({content_of(each) for each in others} - {""}) == len(others)


def test_pictures_with_dark_edges_are_told_apart() -> None:
    first, second = torch.zeros(2, 512, 28, 28)
    first[:, 5:20, 5:20], second[:, 5:20, 5:20] = 1, torch.rand(512, 15, 15)
    assert content_of(Holding(first)) != content_of(Holding(second))


def test_what_a_rank_draws_by_is_its_own() -> None:
    def drawing(seed: int) -> Holding:
        of_torch = torch.Generator().manual_seed(seed)
        return Holding(X, random.Random(seed), np.random.default_rng(seed), of_torch)

    assert content_of(drawing(1)) == content_of(drawing(2)) != ""


@pytest.mark.parametrize(
    "held",
    [
        io.StringIO("a"),
        bound_to("a"),
        with_default,
        deque([1]),
        np.array([object()]),
        {object()},
        iter([1]),
        X.to_sparse(),
        len,
        list(range(KEPT_COUNT)),
    ],
)
def test_what_may_be_anything(held: Any) -> None:
    known = type(held) is list
    assert bool(content_of(Holding(held))) == known


def test_what_holds_itself_or_too_much() -> None:
    own = Holding()
    own.held = (own,)
    assert content_of(own) == ""
    assert content_of(Holding([[list(range(400))] * 400] * 400)) == ""
