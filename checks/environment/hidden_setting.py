"""NCCL takes settings from a file that the environment does not show.

Why it matters
    NCCL reads $NCCL_CONF_FILE, or else ~/.nccl.conf, and then /etc/nccl.conf. A setting in there
    is on no command line and in no job script; a file that only one host has, or another one,
    makes its ranks communicate differently, and what the environment sets overrides it silently.
What to do
    Keep the files equal on all hosts, or keep each setting in one place only. A line is
    NAME=value, without blanks around the '=', without export and without quotes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from ddpcheck.check import Context
from ddpcheck.finding import Confidence, Finding, Severity
from ddpcheck.measures.words import brief, listed, spans
from ddpcheck.variables.environ import shown
from ddpcheck.variables.nccl_conf import ConfFile, conf_files

ROOT = Path("/")
LOGGING = "NCCL_DEBUG"  # what is logged may differ
ALIKE = "make NCCL's configuration files alike on all hosts; look at "
ONCE = "keep the setting in one place: remove it from the file or from the environment, "
LINE = "write NAME=value, without blanks before the '=' and without export, in "


class Facts(msgspec.Struct, frozen=True):
    """NCCL's configuration files, the first to count first; and what of them is overridden.

    ``overriding`` is what the environment says in place of a file.
    """

    host: str
    on_gpu: bool
    files: tuple[ConfFile, ...]
    overriding: dict[str, str]

    @property
    def settings(self) -> dict[str, str]:
        """Return what the files come to: the first that sets a variable counts."""
        return {n: v for each in reversed(self.files) for n, v in each.settings.items()}


def probe(ctx: Context) -> Facts:
    """Return the files that NCCL would read on this host, for this user."""
    files = conf_files(ctx.environ, ROOT)
    set_twice = sorted({name for each in files for name in each.settings if name in ctx.environ})
    overriding = {name: shown(name, ctx.environ[name]) for name in set_twice}
    return Facts(ctx.host, ctx.on_gpu, tuple(files), overriding)


def judge(facts: Mapping[int, Facts]) -> list[Finding]:
    """Return what is set, and what hosts, files and the environment say against each other."""
    return [*_differing(facts), *_overridden(facts), *_useless(facts), *_listing(facts)]


def summarize(facts: Mapping[int, Facts]) -> str:
    """Return how many settings come from files."""
    count = len({name for own in facts.values() for name in own.settings})
    return f"settings from files: {count}" if count else "no setting from a file"


def _differing(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    names = sorted({name for own in facts.values() for name in own.settings})
    told: dict[str, list[int]] = {}
    for name in names:
        values = {rank: own.settings.get(name) for rank, own in facts.items()}
        if len(set(values.values())) > 1 and not name.startswith(LOGGING):
            for rank, value in values.items():
                told.setdefault(f"{name}={value}" if value else f"no {name}", []).append(rank)
    if told:
        hosts = sorted({own.host for own in facts.values()})
        yield _finding(facts, "configuration files differ", told, ALIKE + listed(hosts))


def _overridden(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    told: dict[str, list[int]] = {}
    for rank, own in facts.items():
        for name, value in own.settings.items():
            above = own.overriding.get(name, value)
            lower = [each.settings[name] for each in own.files if name in each.settings]
            if not name.startswith(LOGGING) and (above != value or len(set(lower)) > 1):
                files = listed([each.path for each in own.files if name in each.settings])
                told.setdefault(f"{name}={above} counts, not what {files} says", []).append(rank)
    if told:
        yield _finding(facts, "settings contradict each other", told, ONCE + "whichever is wrong")


def _useless(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    told: dict[str, list[int]] = {}
    for rank, own in facts.items():
        for each in own.files:
            for line in (*each.useless, *([each.trouble] if each.trouble else ())):
                told.setdefault(f"{each.path}: {line}", []).append(rank)
    if told:
        paths = sorted({each.path for own in facts.values() for each in own.files})
        yield _finding(facts, "NCCL cannot use its configuration file", told, LINE + listed(paths))


def _listing(facts: Mapping[int, Facts]) -> Iterator[Finding]:
    told: dict[str, list[int]] = {}
    for rank, own in facts.items():
        for each in own.files:
            for name, value in each.settings.items():
                told.setdefault(f"{name}={brief(value)} in {each.path}", []).append(rank)
    if told:
        paths = sorted({each.path for own in facts.values() for each in own.files})
        fix = f"nothing, if they are meant; else remove them from {listed(paths)}"
        yield _finding(facts, "settings from files", told, fix, Severity.INFO)


def _finding(
    facts: Mapping[int, Facts],
    title: str,
    told: Mapping[str, list[int]],
    fix: str,
    severity: Severity = Severity.WARNING,
) -> Finding:
    ranks = sorted({rank for who in told.values() for rank in who})
    on_gpu = any(facts[rank].on_gpu for rank in ranks)
    return Finding(
        title=title,
        message=listed([f"{each} (rank {spans(who)})" for each, who in told.items()], "; "),
        fix=fix,
        ranks=tuple(ranks),
        severity=severity if on_gpu else Severity.INFO,
        confidence=Confidence.HIGH,
    )
