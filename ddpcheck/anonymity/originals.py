"""Who a report names: its hosts, their domains, and its users, as far as its fields tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from ddpcheck.report import Report

# Fields and variables whose value is a host, or a list of them.
HOST_FIELDS = re.compile(
    r"(?:store_|master_|own_|this_)?host(?:s|name|names)?|node|nodes|master|MASTER_ADDR|"
    r"HOSTNAME|SLURMD_NODENAME|SLURM_SUBMIT_HOST|\w*_HOST(?:NAME)?"
)
HOST_LISTS = re.compile(r"\w*NODELIST|\w*HOSTFILE_LIST|\w*_HOSTS|PBS_O_HOST")
USER_FIELDS = re.compile(r"user|username|owner|USER|LOGNAME|USERNAME|SLURM_JOB_USER|SUDO_USER")
HOMES = re.compile(r"/(?:home|Users)/([^/\s:'\"]+)")
LOGIN = re.compile(r"(?<![\w.])([A-Za-z_][\w.-]{0,40})@(?=[A-Za-z0-9])")
# Names that every machine has.
COMMON = frozenset({"", "localhost", "root", "nobody", "localdomain", "0", "none", "-", "<host>"})
HOST = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
STEM = re.compile(r"([A-Za-z][\w.-]*?[A-Za-z_-]{2,})\d+$")
LOOPBACK = re.compile(r"127\.[\d.]+|::1?|0\.0\.0\.0")


class Originals(NamedTuple):
    """The names in a report, in the order in which they appear.

    ``stems`` are what hosts are called but for their number: a list of hosts shares it.
    """

    hosts: tuple[str, ...]
    domains: tuple[str, ...]
    stems: tuple[str, ...]
    users: tuple[str, ...]


def originals_in(report: Report) -> Originals:
    """Return whom the report names."""
    fields = list(_fields("", msgspec.to_builtins(report)))
    told = [*report.run.hosts, *(record.host for record in report.ranks)]
    told += [host for name, text in fields for host in _hosts_of(name, text)]
    hosts = dict.fromkeys(host for host in told if _is_name(host) and not LOOPBACK.fullmatch(host))
    shorts = [host.partition(".")[0] for host in hosts if _has_domain(host)]
    domains = [host.partition(".")[2] for host in hosts if _has_domain(host)]
    every = dict.fromkeys([*hosts, *(short for short in shorts if _is_name(short))])
    stems = dict.fromkeys(match[1] for host in every if (match := STEM.match(host)))
    users = dict.fromkeys(user for name, text in fields for user in _users_of(name, text))
    return Originals(tuple(every), tuple(_with_parents(domains)), tuple(stems), tuple(users))


def _fields(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every text with the name of the field that it is in, names of fields included."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        mapping: Mapping[Any, Any] = value
        for key, member in mapping.items():
            yield "", str(key)
            yield from _fields(str(key), member)
    elif isinstance(value, list | tuple):
        for member in cast("list[Any]", value):
            yield from _fields(name, member)


def _hosts_of(name: str, text: str) -> Iterator[str]:
    if HOST_FIELDS.fullmatch(name):
        bare = text.rpartition("@")[2]
        yield bare if bare.count(":") > 1 else bare.partition(":")[0]
    elif HOST_LISTS.fullmatch(name):
        yield from re.split(r",(?![^\[]*\])", text)


def _users_of(name: str, text: str) -> Iterator[str]:
    if USER_FIELDS.fullmatch(name) and _is_name(text):
        yield text
    for found in (HOMES, LOGIN) if "/" in text or "@" in text else ():
        yield from (user for user in found.findall(text) if _is_name(user) and user != "git")


def _is_name(text: str) -> bool:
    return text.lower() not in COMMON and len(text) > 1


def _has_domain(host: str) -> bool:
    return "." in host and not host.replace(".", "").isdigit() and bool(HOST.fullmatch(host))


def _with_parents(domains: list[str]) -> dict[str, None]:
    """Return the domains and those above them, but for the topmost, such as com."""
    found: dict[str, None] = {}
    for domain in domains:
        labels = domain.split(".")
        least = 1 if len(labels) == 1 else len(labels) - 1
        found.update(dict.fromkeys(".".join(labels[at:]) for at in range(least)))
    return {each: None for each in found if _is_name(each)}
