"""The numbers are those of nccl-tests, doc/PERFORMANCE.md."""

import pytest

from ddpcheck.measures.bus_bandwidth import bus_factor, bus_gbps


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        ("all_reduce", 14 / 8),
        ("all_gather", 7 / 8),
        ("all_gather_into_tensor", 7 / 8),
        ("reduce_scatter_tensor", 7 / 8),
        ("all_to_all_single", 7 / 8),
        ("gather", 7 / 8),
        ("scatter", 7 / 8),
        ("broadcast", 1),
        ("reduce", 1),
        ("batch_isend_irecv", 1),
    ],
)
def test_factor_of_eight_ranks(kind: str, factor: float) -> None:
    assert bus_factor(kind, 8) == factor


def test_bus_bandwidth_is_in_decimal_gigabytes() -> None:
    # 1 GiB in 3.274 ms between two GPUs is what nccl-tests printed as 328 GB/s.
    assert bus_gbps("all_reduce", 2, 2**30, 3.274e-3) == pytest.approx(328, rel=0.001)
