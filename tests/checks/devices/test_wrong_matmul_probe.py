import pytest
import torch
from contexts import context_with

from ddpcheck.check import Profile
from ddpcheck.checks.devices.wrong_matmul import RUNS, judge, probe, summarize
from ddpcheck.finding import Severity


def test_a_cpu_is_right() -> None:
    facts = probe(context_with(profile=Profile.QUICK))
    assert (facts.wrong, facts.unsteady) == ((), ())
    assert (
        summarize({0: facts}) == f"{2 * RUNS[Profile.QUICK]} matrix products compared on each rank"
    )


def test_a_wrong_cpu_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.Tensor.__matmul__

    def multiply(left: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = right(left, other)
        return product if product.dtype is torch.float64 else product.nextafter(product + 1)

    monkeypatch.setattr(torch.Tensor, "__matmul__", multiply)
    assert judge({0: probe(context_with())})[0].severity is Severity.ERROR
