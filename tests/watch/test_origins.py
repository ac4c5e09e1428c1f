"""Where operations were made, of one forward pass."""

from __future__ import annotations

import torch

from ddpcheck.watch.origins import Origins, origin_of


def made() -> torch.Tensor:
    return torch.ones(3, requires_grad=True).sum()


def test_the_line_of_an_operation() -> None:
    origins = Origins()
    origins.begin()
    assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_check_nan_enabled()
    node = made().grad_fn
    origins.end()
    assert not torch.is_anomaly_enabled()
    told = origin_of(node)
    assert told is not None
    assert (told.file, told.function) == (__file__, "made")


def test_it_is_done_once() -> None:
    origins = Origins()
    origins.begin()
    origins.end()
    origins.begin()
    assert not torch.is_anomaly_enabled()
    assert origin_of(made().grad_fn) is None


def test_who_looks_for_anomalies_by_himself_goes_on() -> None:
    with torch.autograd.set_detect_anomaly(mode=True):
        origins = Origins()
        origins.begin()
        origins.end()
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled()
        assert origin_of(made().grad_fn) is not None
