"""The processes of the job do not agree on who they are.

Why it matters
    With one wrong RANK, WORLD_SIZE, MASTER_ADDR or MASTER_PORT the job hangs at its start, until
    a timeout ("1/2 clients joined") that names nobody; a wrong LOCAL_RANK shares a GPU.
What to do
    Start one torchrun command a host, or set the variables in one place: RANK is 0..WORLD_SIZE-1
    over all hosts, LOCAL_RANK 0..LOCAL_WORLD_SIZE-1 on each of them.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import listed, spans

# Source: torch/distributed/rendezvous.py for what torch reads, torchrun's manual for the rest.
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
HANDY = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")
INDEX, COUNT, PORT = range(10**9), range(1, 10**9), range(1, 2**16)  # TCP ports are 16-bit
LIMITS = {"RANK": INDEX, "WORLD_SIZE": COUNT, "MASTER_PORT": PORT, HANDY[0]: INDEX, HANDY[1]: COUNT}
NAMED_COUNT = 1024  # of a million absent ranks
SET = "start the ranks with torchrun, or correct the launch script; a port is 1..65535"
ONCE = "start each RANK of 0..WORLD_SIZE-1 once, on every node; a second job needs its own port"


class Facts(msgspec.Struct, frozen=True, dict=True):
    """Who a process takes itself for: the variables that are set; the GPUs it may choose from."""

    seat: int
    host: str
    pid: int
    variables: dict[str, str]
    gpus: int = 0

    @property
    def rank(self) -> int:
        """Return the rank that the process claims, or its seat when it claims none."""
        return int(self.values.get("RANK", self.seat))

    @cached_property
    def values(self) -> dict[str, Any]:
        """Return the variables that make sense, numbers as numbers."""
        texts = {n: t.casefold() for n, t in self.variables.items() if n not in LIMITS}
        digits = {n: int(t) for n, t in self.variables.items() if n in LIMITS and t.isdecimal()}
        return texts | {name: n for name, n in digits.items() if n in LIMITS[name]}

    def lack(self, names: Sequence[str]) -> str:
        """Return what is wrong with these variables, or an empty text."""
        told = {name: self.variables.get(name) for name in names if name not in self.values}
        return ", ".join(f"{name} is {repr(t) if t else 'not set'}" for name, t in told.items())


def probe(ctx: Context) -> Facts:
    """Return what this process finds in its environment; an empty variable counts as unset."""
    ctx.require_meeting()
    told = {HANDY[1]: ctx.environ.get("LOCAL_SIZE", ""), **ctx.environ}  # as DeepSpeed calls it
    kept = {n: t for n in (*NEEDED, *HANDY, "GROUP_RANK") if (t := told.get(n, "").strip())}
    return Facts(ctx.rank, ctx.host, os.getpid(), kept, ctx.gpus if ctx.on_gpu else 0)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return one finding a cause: unset, malformed, contradictory, double or absent values."""
    came = [facts[seat] for seat in sorted(facts)]
    places = _grouped(((p.host, p.values.get("GROUP_RANK")), p) for p in came)  # agents share hosts
    local = (found for who in places.values() for found in _wrong_local(who))
    return [*_unfit(came), *_differing(came), *(list(_wrong_ranks(came)) or local)]


def _unfit(came: Sequence[Facts]) -> Iterator[Finding]:
    for names in (NEEDED, HANDY):
        for what, who in _grouped((p.lack(names), p) for p in came).items():
            # Scripts choose among several GPUs by LOCAL_RANK; otherwise only habit asks for it.
            chooses = HANDY[0] in what and any(p.gpus > 1 for p in who)
            lesser = Severity.WARNING if chooses or "'" in what else Severity.INFO
            yield _finding(who, what, SET, Severity.ERROR if names is NEEDED else lesser)


def _differing(came: Sequence[Facts]) -> Iterator[Finding]:
    odd: dict[str, list[Facts]] = {}
    said: list[str] = []
    for name in ("WORLD_SIZE", "MASTER_PORT", "MASTER_ADDR"):
        groups = _grouped((p.values.get(name), p) for p in came)
        most = max(map(len, groups.values()), default=0)
        tied = [len(who) for who in groups.values()].count(most) > 1
        if len(groups) > 1:
            odd[name] = [p for who in groups.values() for p in who if tied or len(who) < most]
            said += [f"{name} {value} on {_named(who)}" for value, who in groups.items()]
    if odd:
        gravity = Severity.INFO if [*odd] == ["MASTER_ADDR"] else Severity.ERROR  # all have met
        what = f"{' and '.join(odd)} not the same everywhere: {'; '.join(said)}"
        yield _finding([p for who in odd.values() for p in who], what, SET, gravity)


def _wrong_ranks(came: Sequence[Facts]) -> Iterator[Finding]:
    sizes = {p.values["WORLD_SIZE"] for p in came if "WORLD_SIZE" in p.values}
    world = max(sizes, default=COUNT.stop)
    claims = _grouped((p.values.get("RANK"), p) for p in came)
    if double := [p for who in claims.values() for p in who if len(who) > 1]:
        yield _finding(double, "RANK claimed more than once", ONCE, Severity.ERROR)
    if outside := [p for p in came if p not in double and p.values.get("RANK", 0) >= world]:
        yield _finding(outside, f"RANK is not below WORLD_SIZE ({world})", ONCE, Severity.ERROR)
    if len(sizes) == 1 and len(came) < world and not any(p.lack(NEEDED) for p in came):
        absent = tuple(r for r in range(min(world, len(came) + NAMED_COUNT)) if r not in claims)
        few = spans(absent) + ", ..." * (len(absent) + len(claims) < world)
        what = f"WORLD_SIZE is {world} and {len(came)} processes came; missing: rank {few}"
        yield Finding(title="ranks are missing", message=what, fix=ONCE, ranks=absent)


def _wrong_local(place: Sequence[Facts]) -> Iterator[Finding]:
    if any(p.lack(HANDY) for p in place):
        return
    local = [(p.values["LOCAL_RANK"], p.values["LOCAL_WORLD_SIZE"]) for p in place]
    claims, mates = Counter(local), Counter(size for _, size in local)
    # Containers may share a host's name: where all came k times, they are k hosts in truth.
    if all(claims[rank, size] * size == mates[size] and rank < size for rank, size in local):
        return
    pairs = zip(place, local, strict=True)
    wrong = [p for p, (r, size) in pairs if r >= size or claims[r, size] > 1 >= mates[size] / size]
    said = listed(f"{rank} of {size}" for rank, size in local)
    what = f"LOCAL_RANK does not count the processes of a host up to LOCAL_WORLD_SIZE: {said}"
    yield _finding(wrong or place, what, SET, Severity.ERROR if wrong else Severity.WARNING)


def _grouped(pairs: Iterable[tuple[Any, Facts]]) -> dict[Any, list[Facts]]:
    groups: dict[Any, list[Facts]] = {}
    for key, process in (pair for pair in pairs if pair[0] not in (None, "")):
        groups.setdefault(key, []).append(process)
    return groups


def _named(who: Sequence[Facts]) -> str:
    return listed(f"rank {p.rank} ({p.host}, pid {p.pid})" for p in who)


def _finding(who: Sequence[Facts], what: str, fix: str, severity: Severity) -> Finding:
    return Finding(
        title=what.partition(":")[0],
        message=f"{_named(who)}: {what}",
        fix=fix,
        ranks=tuple(sorted({p.rank for p in who})),
        severity=severity,
        confidence=Confidence.HIGH if severity is Severity.ERROR else Confidence.MEDIUM,
    )
