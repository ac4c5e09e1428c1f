"""Whether a value is one that its reader understands, and what the reader makes of it if not.

Sources: ncclLoadParam, ncclDebugInit, ncclGetLevel and parseList of NCCL v2.28.9 (src/misc,
src/graph and src/debug.cc); getCvarBool and getCvarInt of torch's c10d/Utils.hpp; libgomp's manual. What is
called fatal was tried: with torch 2.11 and NCCL 2.28.9 on two GPUs, or with torch 2.13 and gloo.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from ddpcheck.measures.versions import Version, version
from ddpcheck.variables.registry import VARIABLES


class Fault(NamedTuple):
    """What is wrong with a value, and whether its reader ends the job for it."""

    told: str
    is_fatal: bool = False


NUMBER = re.compile(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|\d+)\s*")
YES_AND_NO = frozenset({"y", "yes", "1", "t", "true", "n", "no", "0", "f", "false"})
# Since then, NCCL refuses words in NCCL_ALGO and NCCL_PROTO that it does not know.
STRICT_LISTS: Version = (2, 24)
LEVELS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")
PROTOCOLS = ("LL", "LL128", "Simple")
ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
LISTS = {"algorithms": ALGORITHMS, "protocols": PROTOCOLS}
OLD_ALGORITHMS = ("CollNet",)
TWO_COLLNETS: Version = (2, 14)  # since then, there are two instead of one
OCTAL = 8
# Without an interface of that name, no group is made.
NEEDED_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
TORCHS_KINDS = ("torch-bool", "torch-number", "pairs")
# What people set for "nothing": the log stays off, as they meant.
OFF = frozenset({"0", "none", "off", "false", "no"})


def fault(name: str, value: str, versions: Mapping[str, str]) -> Fault | None:
    """Return what is wrong with a variable's value; None when nothing is known to be."""
    variable = VARIABLES.get(name)
    if variable is None or not value.strip() or (name == "NCCL_DEBUG" and value.casefold() in OFF):
        return None
    kind, _, limits = variable.kind.partition(" ")
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        is_fatal = name in NEEDED_INTERFACES or kind.endswith("-or-fail") or kind in TORCHS_KINDS
        return Fault("the quotes are part of the value", is_fatal)
    if kind in LISTS:
        return _of_list(LISTS[kind], value, version(versions.get("nccl", "")))
    check = CHECKS.get(kind)
    return check(value, limits) if check else None


def number_read(value: str) -> int:
    """Return the number that NCCL reads from a value: its first digits, 0 when there are none.

    Source: ncclLoadParam, which leaves it to strtoll with base 0.
    """
    counted = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|\d+)", value)
    sign, digits = counted.groups() if counted else ("", "0")
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    return int(sign + digits, base)


def _number(value: str, limits: str) -> Fault | None:
    if (found := NUMBER.fullmatch(value)) is None:
        counted = NUMBER.match(value)
        read = counted[0].strip() if counted else "0"
        return Fault(f"only a number is read from it, which makes it {read}")
    sign, digits = found.groups()
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
    if base == OCTAL and set(digits) & {"8", "9"}:
        return Fault("a leading 0 makes it an octal number, which has no 8 and no 9")
    low, _, high = limits.partition("-")
    if high and not int(low) <= int(sign + digits, base) <= int(high):
        return Fault(f"outside of {low} to {high}")
    return None


def _cuda_number(value: str, limits: str) -> Fault | None:
    if NUMBER.fullmatch(value) is None:
        return Fault("not a number")
    return _number(value, limits)


def _exactly(value: str, choices: str) -> Fault | None:
    known = choices.split()
    return None if value in known else Fault(f"not one of {', '.join(known)}")


def _one_of(value: str, choices: str, *, is_fatal: bool = False) -> Fault | None:
    known = choices.split()
    folded = [each.casefold() for each in known]
    if value.casefold() in folded:
        return None
    return Fault(f"not one of {', '.join(known)}", is_fatal)


def _level(value: str, _: str) -> Fault | None:
    if value in LEVELS or value[0].isdecimal():
        return None
    upper = value.strip().upper()
    meant = f"; did you mean {upper}?" if upper in LEVELS else ""
    return Fault(f"not a number, nor one of {', '.join(LEVELS)}{meant}")


def _of_list(known: tuple[str, ...], value: str, nccl: Version) -> Fault | None:
    known = (*known, *OLD_ALGORITHMS) if known is ALGORITHMS and nccl < TWO_COLLNETS else known
    lists = [entry.rpartition(":")[2].removeprefix("^") for entry in value.split(";")]
    words = [word for each in lists for word in each.split(",") if word]
    folded = {name.casefold() for name in known}
    if not (strange := [word for word in words if word.casefold() not in folded]):
        return None
    said = f"NCCL has no {', '.join(strange)} among {', '.join(known)}"
    return Fault(said, nccl >= STRICT_LISTS)


def _torch_bool(value: str, _: str) -> Fault | None:
    if value.casefold() in YES_AND_NO:
        return None
    return Fault("torch takes only yes or no, true or false, 1 or 0", is_fatal=True)


def _torch_number(value: str, _: str) -> Fault | None:
    is_number = re.match(r"\s*[+-]?\d", value) is not None
    return None if is_number else Fault("torch takes only a number", is_fatal=True)


def _threads(value: str, _: str) -> Fault | None:
    if re.fullmatch(r"\s*0*[1-9]\d*\s*(,\s*0*[1-9]\d*\s*)*", value):
        return None
    return Fault("not a number of threads: it counts as not set, which means one a core")


def _pairs(value: str, _: str) -> Fault | None:
    parts = [part for part in re.sub(r"\[[^\]]*\]", "", value).split(",") if part.strip()]
    if not (odd := [part for part in parts if ":" not in part]):
        return None
    return Fault(f"not a list of name:value, but {', '.join(odd)}", is_fatal=True)


def _path(value: str, _: str) -> Fault | None:
    return Fault("nobody expands the ~ in it") if value.startswith("~") else None


CHECKS: dict[str, Callable[[str, str], Fault | None]] = {
    "number": _number,
    "cuda-number": _cuda_number,
    "exactly": _exactly,
    "one-of": _one_of,
    "one-of-or-fail": partial(_one_of, is_fatal=True),
    "level": _level,
    "torch-bool": _torch_bool,
    "torch-number": _torch_number,
    "threads": _threads,
    "pairs": _pairs,
    "path": _path,
}
