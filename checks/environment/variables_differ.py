"""The ranks were started with different environments.

Why it matters
    ssh and pdsh forward no variables: the remote ranks then import other modules, load other
    libraries, or miss what was exported on the first host. With another NCCL_PROTO, NCCL_ALGO or
    NCCL_BUFFSIZE on some ranks, NCCL hangs, or returns wrong sums.
What to do
    Set the variables in one place that every rank reads: the image, the job script with
    sbatch --export=ALL, mpirun -x NAME, or a file that the launch command sources on each host.
"""

from collections.abc import Iterator, Mapping

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.peers import outside_majority
from ddpcheck.measures.words import brief, listed, spans
from ddpcheck.variables.agreement import Clash, clash, compared
from ddpcheck.variables.environ import SEARCH_PATHS

SEVERITIES = {
    Clash.SURE: Severity.ERROR,
    Clash.LIKELY: Severity.WARNING,
    Clash.HARMLESS: Severity.INFO,
}
UNSET = "not set"


class Facts(msgspec.Struct, frozen=True):
    """The variables that ranks are to have in common, secrets hidden."""

    host: str
    on_gpu: bool
    values: dict[str, str]


def probe(ctx: Context) -> Facts:
    """Return this rank's variables that steer the job or decide what it loads."""
    return Facts(ctx.host, ctx.on_gpu, compared(ctx.environ, ctx.host))


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding for what breaks the job, for what may, for paths, and for the rest."""
    on_gpu = any(own.on_gpu for own in facts.values())
    sorted_out: dict[tuple[Clash, bool], list[str]] = {}
    for name in _differing(facts):
        values = set(_values(facts, name).values())
        key = clash(name, values, on_gpu=on_gpu), name in SEARCH_PATHS
        sorted_out.setdefault(key, []).append(name)
    order = [(each, is_path) for each in Clash for is_path in (False, True)]
    return [_finding(facts, *key, sorted_out[key]) for key in order if key in sorted_out]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many variables were compared, and how many differ."""
    names = {name for own in facts.values() for name in own.values}
    return f"{len(names)} variables compared, {len(_differing(facts))} differ"


def _differing(facts: Mapping[int, Facts]) -> list[str]:
    names = sorted({name for own in facts.values() for name in own.values})
    return [name for name in names if len(set(_values(facts, name).values())) > 1]


def _finding(facts: Mapping[int, Facts], kind: Clash, is_path: bool, names: list[str]) -> Finding:
    severity = SEVERITIES[kind]
    odd = {rank for name in names for rank in _odd(_values(facts, name))}
    hosts = sorted({facts[rank].host for rank in odd})
    what = "search paths differ" if is_path else "variables differ"
    return Finding(
        title=f"{what} between ranks" + (", and must not" if severity is Severity.ERROR else ""),
        message=f"{_told(facts, names)}: {kind}",
        fix=f"set {listed(names)} alike for all ranks; look first at {listed(hosts)}"
        + _forwarding(facts, names, odd),
        ranks=tuple(sorted(odd)),
        severity=severity,
        confidence=Confidence.HIGH if severity is Severity.ERROR else Confidence.MEDIUM,
    )


def _odd(values: Mapping[int, str | None]) -> tuple[int, ...]:
    """Return the ranks outside the majority; where there is none, those that lack the variable."""
    odd = outside_majority(values)
    unset = tuple(rank for rank in odd if values[rank] is None)
    return unset if unset and len(odd) == len(values) else odd


def _forwarding(facts: Mapping[int, Facts], names: list[str], odd: set[int]) -> str:
    """Return how variables get lost, where some ranks lack all of these."""
    lost = all(name not in facts[rank].values for rank in odd for name in names)
    return ", where they are not set (ssh and pdsh forward no variables)" if lost else ""


def _values(facts: Mapping[int, Facts], name: str) -> dict[int, str | None]:
    return {rank: own.values.get(name) for rank, own in facts.items()}


def _told(facts: Mapping[int, Facts], names: list[str]) -> str:
    return listed([f"{name} is {listed(_groups(facts, name))}" for name in names], "; ")


def _groups(facts: Mapping[int, Facts], name: str) -> Iterator[str]:
    groups: dict[str | None, list[int]] = {}
    for rank in sorted(facts):
        groups.setdefault(facts[rank].values.get(name), []).append(rank)
    entries = {value: (value or "").split(":") for value in groups}
    common = set.intersection(*map(set, entries.values()))
    for value, ranks in groups.items():
        told = UNSET if value is None else brief(value) or "empty"
        if name in SEARCH_PATHS and value and common:
            # Of long lists, only what not all have tells them apart.
            rest = ":".join(entry for entry in entries[value] if entry not in common)
            told = f"...{brief(rest)}" if rest else "only what the others have too"
        hosts = sorted({facts[rank].host for rank in ranks})
        yield f"{told} on rank {spans(ranks)} ({listed(hosts)})"
