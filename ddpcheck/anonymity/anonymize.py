"""Replace hosts, users, addresses and paths everywhere in a report, the same by the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from ipaddress import ip_address
from typing import Any, cast

import msgspec

from ddpcheck.anonymity.labels import Labels
from ddpcheck.anonymity.originals import HOST_LISTS, Originals, originals_in
from ddpcheck.anonymity.paths import path_without_names
from ddpcheck.report import Report
from ddpcheck.secrecy.redaction import unused

MAC = r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<mark>[:-])(?:[0-9A-Fa-f]{2}(?P=mark)){4,18}[0-9A-Fa-f]{2}(?![\w:-])"
IPV6 = (
    r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{2,39}"
    r"(?:(?<=:)\d{1,3}(?:\.\d{1,3}){3}|(?:\.\d{1,3}){3})?"
)
IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"
URL = r"(?<![\w])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s'\"<>]+"
# In quotes a path may hold blanks; elsewhere it ends there, or where a list goes on.
PATH = (
    r"(?<=[\"'])~?/[^\"'\n]+(?=[\"'])|"
    r"(?:(?<![\w./~-])~?|(?=/(?:home|Users|root|mnt|data|scratch|work|workspace)/))"
    r"/(?![/\s])[^\s'\"<>|:,;()\[\]{}=*?]+"
)
# Manuals and projects that everybody knows.
PUBLIC_URL = re.compile(
    r"https?://(?:[\w-]+\.)*(?:pytorch\.org|nvidia\.com|kernel\.org|python\.org|readthedocs\.io|"
    r"github\.com/(?:NVIDIA|pytorch|openucx|ROCm)|wikipedia\.org|arxiv\.org)(?:[/:?#]|$)"
)
KEPT_ADDRESSES = re.compile(r"127\.|0\.0\.0\.0$|255\.|::1?$")
# What these hold is of ddpcheck itself.
OWN_FIELDS = frozenset(
    {
        *("id", "stage", "outcome", "severity", "confidence", "verdict", "format_version"),
        *("launcher", "backend", "profile", "device", "started_at", "part", "course"),
    }
)


def anonymized(report: Report) -> Report:
    """Return the report without the names of hosts and users, without addresses and paths.

    The same name is replaced by the same label everywhere, in messages, stacks, facts and their keys;
    labels are numbered as names first appear, and tell nothing else of them. Loopback addresses,
    paths of the system, those of torch within their environment, and relative ones stay. What changed
    against a baseline is left out: it names hosts and users that only the other report knows.
    """
    alone = msgspec.structs.replace(report, changes=msgspec.UNSET)
    return _Anonymizer(originals_in(alone)).report(alone)


class _Anonymizer:
    """Holds the labels of one report; a text is looked at in one pass, so that no label is a name."""

    def __init__(self, originals: Originals) -> None:
        self._originals = originals
        self._labels = Labels((*originals.hosts, *originals.domains, *originals.users))
        self._users = {user.lower() for user in originals.users}
        self._hosts = {host.lower() for host in originals.hosts}
        self._known = self._hosts | self._users
        self._name = re.compile(_names(originals), re.IGNORECASE)
        others = {"url": URL, "mac": MAC, "v6": IPV6, "v4": IPV4, "path": PATH}
        parts = {"name": _names(originals), **others}
        whole = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in parts.items())
        self._marked = re.compile(whole, re.IGNORECASE)
        self._memory: dict[str, str] = {}
        for host in originals.hosts:  # in the order of the ranks
            self._name_label(host)

    def report(self, report: Report) -> Report:
        kept = OWN_FIELDS | {"facts"}
        names = [name for name in report.__struct_fields__ if name not in kept]
        changed = {name: self._of(getattr(report, name)) for name in names}
        facts = {check: self._of(folded) for check, folded in report.facts.items()}
        return msgspec.structs.replace(report, facts=facts, **changed)

    def _of(self, value: Any) -> Any:
        if value is None or isinstance(value, int | float):
            return value  # most of what is measured
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self._text(value)
        if isinstance(value, msgspec.Struct):
            names = [name for name in value.__struct_fields__ if name not in OWN_FIELDS]
            told = {name: self._of(getattr(value, name)) for name in names}
            return msgspec.structs.replace(value, **told)
        if isinstance(value, Mapping):
            mapping: Mapping[Any, Any] = value
            return self._mapping(mapping)
        if isinstance(value, list | tuple):
            return [self._of(member) for member in cast("list[Any]", value)]
        return value

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, member in value.items():
            found[unused(self._of(key), found)] = self._member(key, member)
        return found

    def _member(self, key: Any, member: Any) -> Any:
        """Return what a field holds: a list of hosts as a whole, as it may be written in brackets."""
        if isinstance(member, str) and isinstance(key, str) and HOST_LISTS.fullmatch(key):
            hosts = re.split(r",(?![^\[]*\])", member)
            return ",".join(self._labels.of("host", host.lower()) for host in hosts if host)
        return self._of(member)

    def _text(self, text: str) -> str:
        if text not in self._memory:
            self._memory[text] = self._marked.sub(self._label, text)
        return self._memory[text]

    def _label(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup or "", match[0]
        if kind == "mark" or match["mac"]:
            return self._labels.of("mac", text.lower())
        if match["name"]:
            return self._name_label(text)
        if match["url"]:
            return self._url(text)
        if match["path"]:
            return self._path(text)
        return self._address(text)

    def _name_label(self, text: str) -> str:
        name = text.lower()
        domain = next((each for each in self._originals.domains if _is_under(name, each)), "")
        if domain and name not in self._known:
            label = self._labels.of("domain", domain.lower())
            host = name[: -len(domain) - 1]
            return f"{self._labels.of('host', host)}.{label}" if host else label
        if domain:
            host, _, rest = name.partition(".")
            return f"{self._labels.of('host', host)}.{self._labels.of('domain', rest)}"
        if name in self._users and name not in self._hosts:
            return self._labels.of("user", name)
        return self._labels.of("ip" if _is_address(name) else "host", name)

    def _named(self, text: str) -> str:
        return self._name.sub(lambda match: self._name_label(match[0]), text)

    def _address(self, text: str) -> str:
        # A colon, or a point, may end a sentence, and an address too: fe80::
        shorter = (text[: len(text) - cut] for cut in (0, 1, 2))
        bare = next((each for each in shorter if _is_address(each)), "")
        if not bare or KEPT_ADDRESSES.match(bare):
            return text
        return self._labels.of("ip", bare.lower()) + text[len(bare) :]

    def _url(self, text: str) -> str:
        if PUBLIC_URL.match(text):
            return text
        scheme, _, rest = text.partition("://")
        authority, slash, path = rest.partition("/")
        login, at, place = authority.rpartition("@")
        host, colon, port = (
            place.rpartition(":") if place.rfind(":") > place.rfind("]") else (place, "", "")
        )
        user = self._labels.of("user", login.lower()) if at and set(login) != {"*"} else login
        told = self._host(host)
        return f"{scheme}://{user}{at}{told}{colon}{port}{slash and self._path(slash + path)}"

    def _host(self, host: str) -> str:
        """Return the label of what stands in an address in place of a host."""
        bare = host.strip("[]").lower()
        if not bare or bare == "localhost" or KEPT_ADDRESSES.match(bare):
            return host
        is_known = self._name.fullmatch(bare)
        return self._name_label(bare) if is_known else self._labels.of("host", bare)

    def _path(self, text: str) -> str:
        return path_without_names(text, self._labels, self._named)


def _names(originals: Originals) -> str:
    """Return a pattern of all known names, the longest first; one that never matches for none."""
    domains = sorted(originals.domains, key=len, reverse=True)
    names = sorted((*originals.hosts, *originals.users), key=len, reverse=True)
    told = [rf"(?:[\w-]{{1,63}}\.){{0,5}}{re.escape(each)}" for each in domains]
    told += [re.escape(each) for each in names]
    # Hosts of which there is no rank, and lists such as node[1-4].
    told += [rf"{re.escape(stem)}(?:\d+|\[[\d,-]+\])" for stem in originals.stems]
    return rf"(?<![A-Za-z0-9])(?:{'|'.join(told)})(?![A-Za-z0-9])" if told else r"(?!)"


def _is_under(name: str, domain: str) -> bool:
    return name == domain.lower() or name.endswith(f".{domain.lower()}")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
