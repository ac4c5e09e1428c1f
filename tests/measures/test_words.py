import pytest

from ddpcheck.measures.words import (
    as_options,
    brief,
    counted,
    known_as,
    listed,
    runs,
    size,
    spans,
)


def test_long_lists_are_cut() -> None:
    assert listed(["a", "b"]) == "a, b"
    assert listed(["a", "b"], "; ") == "a; b"
    assert listed(range(1000)) == "0, 1, 2, 3, 4, 5, 6, 7, and 992 more"
    assert listed([]) == ""


def test_ranks_are_folded() -> None:
    assert runs([9, 0, 1, 2, 3, 3]) == ["0-3", "9"]
    assert spans([9, 0, 1, 2, 3]) == "0-3, 9"
    assert spans(range(0, 40, 2)).endswith(", and 12 more")


def test_a_number_of_things() -> None:
    assert [counted(each, "more rank") for each in (0, 1, 2)] == [
        "0 more ranks",
        "1 more rank",
        "2 more ranks",
    ]


def test_a_script_is_no_check() -> None:
    assert known_as("watch/script") == "the script"
    assert known_as("collectives/late-rank") == "collectives/late-rank"


def test_options_are_written_as_they_are_asked_for() -> None:
    assert as_options({"cpu_offload": "true", "schedule": "gpipe"}) == "cpu_offload,schedule=gpipe"
    assert as_options({}) == ""


def test_long_values_are_cut() -> None:
    assert brief("short") == "short"
    assert len(brief("x" * 1000)) < 110


@pytest.mark.parametrize(
    ("count_bytes", "told"),
    [
        (0, "0 bytes"),
        (1000, "1000 bytes"),
        (65536, "64 KiB"),
        (64 * 2**20, "64 MiB"),
        (33_030_528, "31.5 MiB"),
        (1.5 * 2**30, "1.5 GiB"),
        (2**52, "4096 TiB"),
    ],
)
def test_sizes(count_bytes: float, told: str) -> None:
    assert size(count_bytes) == told
