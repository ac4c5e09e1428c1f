"""Tried on the host's memory, which is of the same kind to torch."""

import pytest
import torch
from torch import Tensor

from ddpcheck.target import memory_patterns
from ddpcheck.target.memory_patterns import ADDRESS, PATTERNS, WORD_BYTES, wrong_memory

SIZE_BYTES = 1000 * WORD_BYTES


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_patterns, "PIECE_BYTES", 64 * WORD_BYTES)


def test_good_memory_is_silent() -> None:
    assert wrong_memory("cpu", SIZE_BYTES, rounds=2) == []


def test_patterns_are_each_others_complement() -> None:
    zeros_and_ones, ones_and_zeros = PATTERNS.values()
    assert zeros_and_ones ^ ones_and_zeros == -1


def stuck(monkeypatch: pytest.MonkeyPatch, word: int, bit: int, high: bool) -> None:
    """Let one bit of the memory keep its value, whatever is written."""
    read = memory_patterns.first_wrong

    def first_wrong(memory: Tensor, pattern: str) -> object:
        memory[word] = memory[word] | 1 << bit if high else memory[word] & ~(1 << bit)
        return read(memory, pattern)

    monkeypatch.setattr(memory_patterns, "first_wrong", first_wrong)


@pytest.mark.parametrize("bit", [0, 17, 62])
@pytest.mark.parametrize("high", [False, True])
def test_a_stuck_bit_is_found(monkeypatch: pytest.MonkeyPatch, bit: int, high: bool) -> None:
    stuck(monkeypatch, 777, bit, high=high)
    found = wrong_memory("cpu", SIZE_BYTES, rounds=1)
    assert {each.pattern for each in found} & set(PATTERNS)
    for each in found:
        assert (each.offset_bytes, each.words, each.flipped_bits) == (777 * 8, 1, (bit,))


def test_the_highest_bit_is_told_without_a_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    read = memory_patterns.first_wrong

    def first_wrong(memory: Tensor, pattern: str) -> object:
        memory[3] ^= -(2**63)
        return read(memory, pattern)

    monkeypatch.setattr(memory_patterns, "first_wrong", first_wrong)
    found = wrong_memory("cpu", SIZE_BYTES, rounds=1)
    assert [each.flipped_bits for each in found] == [(63,)] * 3
    assert all(min(each.got, each.expected) >= 0 for each in found)


def test_a_lost_address_line_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = memory_patterns.first_wrong

    def first_wrong(memory: Tensor, pattern: str) -> object:
        memory[512:1000] = memory[:488].clone()
        return read(memory, pattern)

    monkeypatch.setattr(memory_patterns, "first_wrong", first_wrong)
    (found,) = wrong_memory("cpu", SIZE_BYTES, rounds=1)
    assert (found.pattern, found.offset_bytes, found.words) == (ADDRESS, 512 * 8, 488)


def test_every_word_has_an_address_of_its_own() -> None:
    words = memory_patterns.pattern_from(ADDRESS, 5, torch.empty(4096, dtype=torch.int64))
    assert len(set(words.tolist())) == 4096
