"""Other hosts, devices, links, versions and variables than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ddpcheck.change import Change, Part
from ddpcheck.comparison.both import Both, Told, grouped
from ddpcheck.measures.words import brief, listed, ranks_told
from ddpcheck.report import RankRecord, Report

UNSET = "not set"
SEARCH_PATHS = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD")


class Watched(NamedTuple):
    """A fact that tells one machine from another: the check, and the way to it in its facts."""

    part: Part
    check: str
    way: tuple[str, ...]
    name: str = ""


# A mapping stands for as many settings as it has names.
WATCHED = (
    Watched(Part.VERSIONS, "environment/version-mismatch", ("versions",)),
    Watched(Part.VARIABLES, "environment/variables-differ", ("values",)),
    Watched(Part.VARIABLES, "environment/hidden-setting", ("overriding",), "in a file"),
    Watched(Part.TOPOLOGY, "environment/too-few-cores", ("core_count",), "cores"),
    Watched(Part.TOPOLOGY, "environment/too-few-cores", ("quota",), "quota of cores"),
    Watched(Part.TOPOLOGY, "devices/missing-gpu", ("gpus",), "GPUs of the host"),
    Watched(Part.TOPOLOGY, "devices/shared-gpu", ("name",), "GPU"),
    Watched(Part.TOPOLOGY, "devices/nvlink-down", ("up",), "NVLinks that are up"),
    Watched(Part.TOPOLOGY, "devices/narrow-pcie-link", ("width",), "PCIe lanes"),
    Watched(Part.TOPOLOGY, "network/mtu-mismatch", ("wire", "interface"), "interface"),
    Watched(Part.TOPOLOGY, "network/mtu-mismatch", ("wire", "mtu_bytes"), "MTU in bytes"),
    Watched(
        Part.TOPOLOGY,
        "network/wrong-interface",
        ("standing", "choice", "chosen", "interface"),
        "interfaces of the backend",
    ),
    Watched(Part.TOPOLOGY, "collectives/slow-transport", ("paths", "transport"), "transport"),
)
OF_THE_RUN = ("launcher", "backend", "profile", "target")
# They say where a report goes and what it is held against, and nothing of what ran.
OUTSIDE = ("--report-dir", "--baseline", "--baseline-bound", "--fail-on", "--format", "--output")


def machine_changes(both: Both) -> Told:
    """Return what is other than before: hosts, devices and links, versions, variables."""
    return Told(
        [
            *_hosts(both),
            *_devices(both),
            *(change for watched in WATCHED for change in _settings(both, watched)),
            *_versions_of_the_run(both),
        ]
    )


def run_changes(both: Both) -> Told:
    """Return what was asked for otherwise: launcher, backend, profile, target, command."""
    old, new = both.old.run, both.new.run
    pairs = {name: (str(getattr(old, name)), str(getattr(new, name))) for name in OF_THE_RUN}
    pairs["command"] = (_asked(old.command), _asked(new.command))
    return Told(
        [
            Change(part=Part.RUN, what=name, before=before, now=now)
            for name, (before, now) in pairs.items()
            if before != now
        ]
    )


def _asked(command: str) -> str:
    """Return a command without what is not about the run itself."""
    kept: list[str] = []
    words = iter(command.split())
    for word in words:
        if word in OUTSIDE:
            next(words, "")
        elif not word.startswith(tuple(f"{name}=" for name in OUTSIDE)):
            kept.append(word)
    return " ".join(kept)


def _hosts(both: Both) -> Iterator[Change]:
    """Yield the ranks that are on other hosts, those of two hosts that swapped places at once."""
    old, new = ({r: record.host for r, record in _ranks(x).items()} for x in (both.old, both.new))
    moved = {rank: pair for rank, pair in _pairs(old, new).items() if all(pair)}
    groups = grouped(moved)
    for (before, now), ranks in groups.items():
        back = groups.get((now, before))
        if back is None:
            yield _changed(Part.TOPOLOGY, f"host of {ranks_told(ranks)}", before, now, ranks)
        elif before < now:
            yield Change(
                part=Part.TOPOLOGY,
                what=f"{ranks_told(ranks)} and {ranks_told(back)}",
                before=f"on {before} and {now}",
                now=f"on {now} and {before}",
                ranks=sorted([*ranks, *back]),
                note="they swapped hosts",
            )


def _devices(both: Both) -> Iterator[Change]:
    old, new = ({r: record.device for r, record in _ranks(x).items()} for x in (both.old, both.new))
    kinds = [{r: device.partition(":")[0] for r, device in told.items()} for told in (old, new)]
    # From CPU to GPU, all ranks change alike, whatever the number of each one's GPU.
    others = _pairs(*kinds)
    same_kind = {r: pair for r, pair in _pairs(old, new).items() if r not in others}
    for (before, now), ranks in grouped({**others, **same_kind}).items():
        if before and now:
            yield _changed(Part.TOPOLOGY, f"device of {ranks_told(ranks)}", before, now, ranks)


def _settings(both: Both, watched: Watched) -> Iterator[Change]:
    old, new = (
        {rank: _named(_at(fact, watched.way), watched.name) for rank, fact in facts.items()}
        for facts in both.facts(watched.check)
    )
    common = old.keys() & new.keys()
    names = dict.fromkeys(name for rank in sorted(common) for name in (*old[rank], *new[rank]))
    for name in names:
        told = [{r: facts[r].get(name, UNSET) for r in common} for facts in (old, new)]
        for (before, now), ranks in grouped(_pairs(*told)).items():
            where = "" if len(ranks) == len(common) else f" of {ranks_told(ranks)}"
            shown = _apart(name, before, now)
            yield _changed(watched.part, name + where, *shown, [] if not where else ranks)


def _versions_of_the_run(both: Both) -> Iterator[Change]:
    """Yield other versions where the check that looks at each rank's did not run."""
    if all(both.facts("environment/version-mismatch")):
        return
    old, new = both.old.run.versions, both.new.run.versions
    for name in dict.fromkeys((*old, *new)):
        if name in old and name in new and old[name] != new[name]:
            yield Change(part=Part.VERSIONS, what=name, before=old[name], now=new[name])


def _pairs(old: Mapping[int, str], new: Mapping[int, str]) -> dict[int, tuple[str, str]]:
    """Return what each rank had and has, where that differs."""
    common = sorted(old.keys() & new.keys())
    return {rank: (old[rank], new[rank]) for rank in common if old[rank] != new[rank]}


def _ranks(report: Report) -> dict[int, RankRecord]:
    return {record.rank: record for record in report.ranks}


def _changed(part: Part, what: str, before: str, now: str, ranks: Sequence[int]) -> Change:
    return Change(part=part, what=what, before=before, now=now, ranks=ranks)


def _named(value: Any, name: str) -> dict[str, str]:
    if isinstance(value, Mapping):
        place = f" ({name})" if name else ""
        return {f"{key}{place}": str(member) for key, member in value.items()}
    return {} if value is None or not name else {name: str(value)}


def _at(fact: Any, way: Sequence[str]) -> Any:
    """Return what lies at the end of the way, of a list what lies there in each; None for nothing."""
    if isinstance(fact, list):
        found = sorted({str(_at(each, way)) for each in fact})
        return ", ".join(found) if found else None
    if not way:
        return fact
    return _at(fact.get(way[0]), way[1:]) if isinstance(fact, Mapping) else None


def _apart(name: str, before: str, now: str) -> tuple[str, str]:
    """Return both values; of long lists of folders, what only one of them has."""
    if name not in SEARCH_PATHS or UNSET in (before, now):
        return brief(before), brief(now)
    old, new = before.split(":"), now.split(":")
    less, more = [x for x in old if x not in new], [x for x in new if x not in old]
    if not less and not more:
        return "the same folders", "in another order"
    return listed(less) or "no other folder", listed(more) or "no other folder"
