"""The part of an environment that matters to a distributed job, without its secrets."""

from collections.abc import Mapping

from ddpcheck.secrecy.names import is_secret_variable
from ddpcheck.secrecy.redaction import HIDDEN, redacted_text
from ddpcheck.variables.registry import PREFIXES, is_known

# What decides which programs and libraries a process finds.
SEARCH_PATHS = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH")
# Libraries below NCCL and gloo, and RCCL, NCCL's twin.
MORE_PREFIXES = (*("RCCL_", "MSCCL", "OFI_NCCL_", "FI_", "UCX_", "SHARP_", "HSA_"), "TP_")


def relevant(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of interest, sorted by name; what is secret in them is hidden."""
    return {name: shown(name, environ[name]) for name in sorted(environ) if is_relevant(name)}


def shown(name: str, value: str) -> str:
    """Return the value, or what of it may be told."""
    return HIDDEN if is_secret_variable(name) else redacted_text(value)


def is_relevant(name: str) -> bool:
    """Return whether a variable steers distributed training, or what a process finds."""
    return name in SEARCH_PATHS or name.startswith(PREFIXES + MORE_PREFIXES) or is_known(name)
