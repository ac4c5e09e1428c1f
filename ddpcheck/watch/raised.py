"""Which of the exceptions that led to each other says what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

from ddpcheck.measures.testimony import is_victims


def telling(error: BaseException) -> BaseException:
    """Return the one to tell of: what came first, where the last only tells of what followed.

    Who handles an exception may exit with a number, or call a collective whose peers have gone: what
    was handled is the rank's own doing. Who wraps "Connection closed by peer" is a victim still.
    """
    chain = list(_chain(error))
    own = [each for each in chain if not _is_mute(each) and not _is_of_peers(each)]
    if _is_mute(error) or _is_of_peers(error):
        of_peers = (each for each in chain if _is_of_peers(each))
        return next(iter(own), next(of_peers, error))
    return chain[-1] if _is_of_peers(chain[-1]) else error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _is_mute(error: BaseException) -> bool:
    """Return whether it is the end of a process with a number, which says nothing more."""
    return isinstance(error, SystemExit) and isinstance(error.code, int)


def _is_of_peers(error: BaseException) -> bool:
    return is_victims(f"{type(error).__name__}: {error}")
