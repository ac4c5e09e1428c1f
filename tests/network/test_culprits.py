from itertools import permutations

import pytest

from ddpcheck.network.culprits import Pair, Way, blames


def tried(hosts: str) -> list[Pair]:
    return list(permutations(hosts, 2))


def pairs(text: str) -> set[Pair]:
    return {(word[0], word[1]) for word in text.split()}


@pytest.mark.parametrize(
    ("hosts", "failed", "blamed"),
    [
        ("ab", "", {}),
        ("abcd", "", {}),
        ("ab", "ab", {Way.TOWARDS: "b"}),
        ("ab", "ab ba", {Way.BETWEEN: "ab"}),
        ("abc", "ac bc", {Way.TOWARDS: "c"}),
        ("abc", "ca cb", {Way.OUTWARD: "c"}),
        ("abc", "ac bc ca cb", {Way.BOTH: "c"}),
        ("abc", "ab ba ac ca bc cb", {Way.BETWEEN: "abc"}),
        ("abcd", "ab ba", {Way.BETWEEN: "ab"}),
        ("abcd", "ac bc dc ad bd cd", {Way.TOWARDS: "cd"}),
        ("abcd", "ab cb db ca", {Way.TOWARDS: "b", Way.BETWEEN: "ac"}),
        ("abcd", "ac ad bc bd ca cb da db", {Way.BETWEEN: "abcd"}),
        ("abc", "ab cb ac", {Way.TOWARDS: "b", Way.OUTWARD: "a"}),
    ],
)
def test_blames(hosts: str, failed: str, blamed: dict[Way, str]) -> None:
    told = blames(pairs(failed), tried(hosts))
    assert {each.way: "".join(each.places) for each in told} == blamed
    explained = [pair for each in told for pair in each.pairs]
    assert sorted(explained) == sorted(pairs(failed))


def test_nothing_tried_is_nothing_failed() -> None:
    assert blames([], []) == []
