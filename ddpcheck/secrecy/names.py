"""Which names stand for a secret: of variables, options, parameters, headers and fields."""

from __future__ import annotations

import re
from functools import lru_cache

# What a secret is called, as the last word of a name.
NOUNS = frozenset(
    {
        *("PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "PASS", "PW"),
        *("SECRET", "SECRETS", "TOKEN", "CREDENTIAL", "CREDENTIALS", "CREDS", "BEARER"),
        *("APIKEY", "APIKEYS", "AUTHKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "ACCOUNTKEY"),
        *("AUTHORIZATION", "AUTH", "COOKIE", "JWT", "PAT", "SASTOKEN", "AUTHTOKEN"),
    }
)
# A key is a secret where this is said of it; otherwise it is one of a mapping, or of attention.
KEYS = frozenset({"KEY", "KEYS"})
OF_A_SECRET_KEY = frozenset(
    {
        *("API", "ACCESS", "SECRET", "PRIVATE", "AUTH", "SIGNING", "ENCRYPTION", "MASTER", "SSH"),
        *("ACCOUNT", "STORAGE", "SUBSCRIPTION", "LICENSE", "DEPLOY", "SERVICE", "CLIENT", "SSL"),
        *("WANDB", "COMET", "NEPTUNE", "OPENAI", "AZURE", "AWS", "GCP", "HF", "LICENCE", "APP"),
    }
)
# A token of these is one of a text, or a count of them.
OF_A_TEXT = frozenset(
    {
        *("PAD", "EOS", "BOS", "UNK", "SEP", "CLS", "MASK", "SPECIAL", "MAX", "MIN", "NUM", "PER"),
        *("IMAGE", "AUDIO", "VIDEO", "STOP", "END", "START", "NEXT", "FIRST", "LAST", "PREFIX"),
        *("SUFFIX", "NEW", "EACH", "BY", "PADDING", "DECODER"),
    }
)
# NCCL_IB_PKEY is the index of an InfiniBand partition; PWD the folder that a shell is in.
INNOCENT = frozenset({"NCCL_IB_PKEY", "PWD", "OLDPWD"})
# As PGPASSWORD and SSHPASS are written; and words that only end alike.
GLUED = ("PASSWORD", "PASSWD", "PASSPHRASE")
NO_PASSWORDS = frozenset({"BYPASS", "COMPASS", "MULTIPASS", "TRESPASS"})
OF_THE_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
# Variables are named by many people: of those, what only may be a secret is hidden, too.
MAY_BE_SECRET = re.compile(
    r"(?:^|_)(?:\w*KEYS?|\w*TOKENS?|\w*SECRETS?|PASS\w*|PWD|\w*CREDENTIALS?|CREDS?|AUTH\w*)(?:_|$)"
)
# A number, or a mark in angle brackets, is one of these: how many tokens, or which one of a text.
COUNTED = frozenset({"TOKEN", "KEY", "KEYS", "PAT", "AUTH"})
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[A-Z]+")


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Return whether the value of what is called so is a secret, as of ``--api-key`` or ``dbPassword``."""
    bare = name.strip("-_ ")
    if bare.upper() in INNOCENT:
        return False
    words = [word.upper() for word in WORD.findall(bare)]
    return bool(words) and _says_secret(name, bare, words[-1], set(words[:-1]))


def _says_secret(name: str, bare: str, last: str, before: set[str]) -> bool:
    if last == "TOKEN":
        return not before & OF_A_TEXT
    if last == "PWD":
        return bool(before)
    if last.endswith(GLUED) or (last.endswith("PASS") and _is_of_the_environment(bare)):
        return last not in NO_PASSWORDS
    if last in KEYS:
        return bool(before & OF_A_SECRET_KEY) or _is_of_the_environment(bare) or name[:1] == "-"
    return last in NOUNS


@lru_cache(4096)
def may_be_a_number(name: str) -> bool:
    """Return whether what is called so may also be a count, or one token of a text."""
    words = WORD.findall(name)
    return not words or words[-1].upper() in COUNTED


def is_secret_variable(name: str) -> bool:
    """Return whether a variable of the environment may hold a secret, wherever its name says so."""
    return name.upper() not in INNOCENT and bool(MAY_BE_SECRET.search(name.upper()))


def _is_of_the_environment(name: str) -> bool:
    return bool(OF_THE_ENVIRONMENT.fullmatch(name))
