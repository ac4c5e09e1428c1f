"""The random number generators of a process, and those that a dataset keeps; reading moves none."""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch

from ddpcheck.measures.digests import short_digest

# These are Mersenne Twisters: so many draws, and the state is made anew.
TWISTER_DRAWS = 624
# Where torch keeps what is drawn next. Source: CPUGeneratorImplStateLegacy, CPUGeneratorImpl.cpp.
NEXT = slice(16, 24)
STATE = slice(24, 24 + 8 * TWISTER_DRAWS)
# Of a dataset, what it holds is looked through so deep, and so many objects of it.
DEPTH, KEPT_OBJECTS = 5, 256
KEPT_MEMBERS = 32  # of each list

# A draw of 32 bits may leave the other half of one for the next: it is none of its own.
_HALVES = ("has_uint32", "uinteger")

# A generator's numbers, and the place of the next one among them.
State = tuple[bytes, int]
_PLAIN = (str, bytes, int, float, complex, bool, type(None), torch.Tensor, type)


def states() -> tuple[State, State, State]:
    """Return the states of torch's, Python's and NumPy's own generators."""
    return _of_torch(torch.get_rng_state()), _of_python(random.getstate()), _numpys()


def digest(state: State) -> bytes:
    """Return 16 bytes, equal for equal states."""
    numbers, place = state
    return short_digest(numbers + place.to_bytes(8, "little")).encode()


def drawn(before: State, after: State) -> int:
    """Return how many numbers were drawn, at least."""
    if before[0] == after[0]:
        return max(0, after[1] - before[1])
    return (TWISTER_DRAWS - before[1]) % TWISTER_DRAWS + after[1]


class OwnGenerators:
    """The generators that a dataset keeps in its attributes, as they are now."""

    def __init__(self, dataset: object) -> None:
        self._seen = [_Seen(each) for each in _generators_in(dataset)]

    def moved(self, most: int) -> tuple[bytes, int]:
        """Return 16 bytes for the states of those that were drawn from since, and how many draws.

        Those of a kind that does not count its draws are followed for ``most`` of them.
        """
        counts = [each.drawn(most) for each in self._seen]
        told = zip(self._seen, counts, strict=True)
        used = b"".join(each.digest for each, count in told if count)
        return short_digest(used).encode(), sum(counts)


class _Seen:
    """A generator at a moment."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        # NumPy's newer generators are a way to use one of several kinds of them.
        self._bits = getattr(generator, "bit_generator", None)
        self._before = _state_of(generator)
        self._first = self._bits.state if self._bits is not None else None

    @property
    def digest(self) -> bytes:
        return digest(self._before)

    def drawn(self, most: int) -> int:
        """Return how many numbers were drawn since, at least, or up to ``most``."""
        after = _state_of(self._generator)
        if self._bits is None or after == self._before:
            return drawn(self._before, after)
        again = type(self._bits)()
        again.state = self._first
        for count in range(1, most):
            again.random_raw()
            if _bits_of(again) == after:
                return count
        return most


def _generators_in(dataset: object) -> Iterator[Any]:
    """Yield the generators among a dataset's attributes and theirs, each once, in their order."""
    waiting: list[tuple[object, int]] = [(dataset, 0)]
    seen: set[int] = set(map(id, _of_the_process()))
    while waiting and len(seen) < KEPT_OBJECTS:
        one, depth = waiting.pop(0)
        if id(one) in seen or isinstance(one, _PLAIN):
            continue
        seen.add(id(one))
        if _is_generator(one):
            yield one
        elif depth < DEPTH:
            waiting += [(each, depth + 1) for each in _members(one)]


def _members(one: object) -> list[object]:
    if isinstance(one, dict):
        return list(islice(one.values(), KEPT_MEMBERS))
    if isinstance(one, list | tuple):
        return list(one[:KEPT_MEMBERS])
    if isinstance(one, partial):
        return [one.func, *one.args, *one.keywords.values()]
    bound = getattr(one, "__self__", None)
    return [*getattr(one, "__dict__", {}).values(), *([] if bound is None else [bound])]


def _is_generator(one: object) -> bool:
    if isinstance(one, torch.Generator):
        return one.device.type == "cpu"
    if isinstance(one, random.Random):
        return not isinstance(one, random.SystemRandom)
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(one, (numpy.random.RandomState, numpy.random.Generator))


def _of_the_process() -> list[object]:
    numpy = sys.modules.get("numpy")
    methods = [random.random, *([] if numpy is None else [numpy.random.rand])]
    return [torch.default_generator, *(getattr(each, "__self__", None) for each in methods)]


def _state_of(generator: Any) -> State:
    if isinstance(generator, torch.Generator):
        return _of_torch(generator.get_state())
    if isinstance(generator, random.Random):
        return _of_python(generator.getstate())
    if hasattr(generator, "bit_generator"):
        return _bits_of(generator.bit_generator)
    return _of_numpy(generator.get_state())


def _bits_of(bits: Any) -> State:
    told = {key: value for key, value in bits.state.items() if key not in _HALVES}
    return repr(told).encode(), 0


def _of_torch(state: torch.Tensor) -> State:
    told = state.numpy().tobytes()
    return told[STATE], int.from_bytes(told[NEXT], "little")


def _of_python(state: tuple[Any, ...]) -> State:
    *numbers, place = state[1]
    return array("L", numbers).tobytes(), place


def _numpys() -> State:
    numpy = sys.modules.get("numpy")
    return (b"", 0) if numpy is None else _of_numpy(numpy.random.get_state())


def _of_numpy(state: Any) -> State:
    name, numbers, place, *_ = state
    return (numbers.tobytes(), int(place)) if name == "MT19937" else (b"", 0)
