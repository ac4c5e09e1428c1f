"""The exception that is told of is what went wrong, and not what only followed from it."""

import sys
from collections.abc import Callable

import pytest

from ddpcheck.watch.raised import telling


def peer_gone() -> None:
    raise RuntimeError("[pair.cc:547] Connection closed by peer [127.0.0.1]:53121")


def bad_sample() -> None:
    raise ValueError("sample 17 has no label")


def exits_after_its_own() -> None:
    try:
        bad_sample()
    except ValueError:
        sys.exit(1)


def exits_with_words() -> None:
    try:
        bad_sample()
    except ValueError:
        sys.exit("no labels: run prepare.py first")


def exits_after_its_peer() -> None:
    try:
        peer_gone()
    except RuntimeError:
        sys.exit(1)


def meets_the_others_at_the_end() -> None:
    try:
        bad_sample()
    finally:
        peer_gone()


def wraps_its_peers_end() -> None:
    try:
        peer_gone()
    except RuntimeError as error:
        raise ArithmeticError("the training failed") from error


def wraps_its_own() -> None:
    try:
        bad_sample()
    except ValueError as error:
        raise ArithmeticError("the training failed") from error


def hides_its_own() -> None:
    try:
        bad_sample()
    except ValueError:
        raise SystemExit(3) from None


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (bad_sample, "sample 17"),
        (peer_gone, "Connection closed"),
        (exits_after_its_own, "sample 17"),
        (exits_with_words, "prepare.py"),
        (exits_after_its_peer, "Connection closed"),
        (meets_the_others_at_the_end, "sample 17"),
        (wraps_its_peers_end, "Connection closed"),
        (wraps_its_own, "the training failed"),
        (hides_its_own, "3"),
    ],
)
def test_what_went_wrong_is_told(does: Callable[[], None], told: str) -> None:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - SystemExit too
        does()
    assert told in str(telling(caught.value))
