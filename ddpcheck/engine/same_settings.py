"""Whether all ranks were asked the same: each host reads its own variables and settings file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from ddpcheck import jsontext
from ddpcheck.check import Check
from ddpcheck.engine.entries import Present
from ddpcheck.measures.words import listed
from ddpcheck.settings import RunSettings

FILE = "file"


def settings_told(settings: RunSettings, checks: Iterable[Check]) -> dict[str, str]:
    """Return what must be the same on all ranks, as short texts, and where the rest came from."""
    asked = settings.configuration
    mesh = ",".join(f"{axis.name}={axis.size}" for axis in settings.mesh)
    return {
        "--profile": settings.profile.value,
        "--mesh": mesh,
        "--select, --skip or installed checks": _digest([check.id for check in checks]),
        "severity": _digest(asked.severity),
        "thresholds": _digest(asked.thresholds),
        "suppress": _digest(asked.suppress),
        FILE: asked.file,
    }


def difference_of(members: Sequence[Present]) -> str:
    """Return how the settings of these ranks differ, and what to do, or ''.

    Where they are not one rank each of one job, that is the finding, and no difference is looked
    for: they may be those of two jobs.
    """
    if not members or sorted(each.rank for each in members) != list(range(len(members))):
        return ""
    first = min(members, key=lambda member: member.rank)
    for member in sorted(members, key=lambda member: member.rank):
        other = _differing(first, member)
        if other:
            return (
                f"rank {member.rank} on {member.host} was started with other settings than rank "
                f"{first.rank} on {first.host}: {listed(other)} ({_from(member)} and "
                f"{_from(first)}); give all ranks the same options and variables, and one settings "
                "file, as with --config"
            )
    return ""


def _differing(first: Present, member: Present) -> list[str]:
    common = first.settings.keys() & member.settings.keys() - {FILE}
    return sorted(key for key in common if first.settings[key] != member.settings[key])


def _from(member: Present) -> str:
    file = member.settings.get(FILE, "")  # as another machine has it
    return "".join(each if each.isprintable() else "?" for each in file) or "no settings file"


def _digest(value: object) -> str:
    return blake2b(jsontext.encode(value), digest_size=8).hexdigest()
