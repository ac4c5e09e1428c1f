"""A process of a machine that was started as a rank."""

import msgspec


class RankProcess(msgspec.Struct, frozen=True):
    """Such a process, and where it was told to meet the others: ``place`` is ADDRESS:PORT."""

    pid: int
    rank: int
    place: str
