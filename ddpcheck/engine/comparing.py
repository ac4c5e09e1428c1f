"""What the leader compares between ranks while their scripts still run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ddpcheck.engine.channel import Channel
from ddpcheck.measures.moments import Apart, Comparison

OnApart = Callable[[Apart], None]


class Comparing:
    """Reads what ranks tell of their replicas, as it comes; ``members`` has each seat's member."""

    def __init__(self, channel: Channel, members: Mapping[int, int], on_apart: OnApart) -> None:
        self._channel = channel
        self._members = members
        self._on_apart = on_apart
        self._read = dict.fromkeys(members, 0)
        self._comparison = Comparison()

    def look(self) -> None:
        """Compare what has come since the last look."""
        for seat, member in self._members.items():
            while (told := self._channel.moments_of(member, self._read[seat])) is not None:
                self._read[seat] += 1
                apart = self._comparison.take(seat, told)
                if apart is not None:
                    self._on_apart(apart)
