"""What stands in place of names: numbered as they first appear, so that nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable, Collection


class Labels:
    """Gives each name a label, the same one every time, and none that is a name itself."""

    def __init__(self, taken: Collection[str]) -> None:
        self._taken = {name.lower() for name in taken}
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, name: str, shape: Callable[[str], str] = str) -> str:
        """Return the label of a name of this kind, such as host1; ``shape`` gives it its form."""
        key = kind, name
        if key not in self._known:
            self._known[key] = shape(self._next(kind))
        return self._known[key]

    def _next(self, kind: str) -> str:
        while True:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            label = f"{kind}{self._counts[kind]}"
            if label not in self._taken:
                return label
