import io
import random
from typing import Any

import numpy as np
import torch

from ddpcheck.train.randomness import restore, seed, state

CPU = torch.device("cpu")


def draws() -> tuple[Any, ...]:
    common: Any = np.random
    # An odd number of normal ones: NumPy and Python keep the second of each pair.
    return (
        *(random.random(), random.gauss(0, 1)),
        *(float(common.rand()), float(common.normal())),
        *(torch.rand(()).item(), torch.randn(()).item()),
    )


def through_a_file(kept: dict[str, Any]) -> Any:
    file = io.BytesIO()
    torch.save(kept, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_what_was_kept_goes_on_as_it_would_have() -> None:
    draws()
    kept = through_a_file(state(CPU))
    expected = [draws(), draws()]
    seed(99, CPU)
    restore(kept, CPU)
    assert [draws(), draws()] == expected


def test_a_seed_decides_all_draws() -> None:
    seed(2**40 + 1, CPU)
    first = draws()
    assert draws() != first
    seed(2**40 + 1, CPU)
    assert draws() == first
