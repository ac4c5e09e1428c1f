"""The names of a state: those that would fit a model, but for what stands before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# What DistributedDataParallel, torch.compile, FSDP1 and activation checkpointing put before names.
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
# Of the names that do not fit: as many as that agree by no chance once their first part is gone.
RENAMED_RATIO = 0.5
LEAST_RENAMED_COUNT = 2


def hiding_prefix(missing: Sequence[str], unexpected: Sequence[str]) -> tuple[str, int]:
    """Return the prefix without which most names would fit, and how many; '' and 0 without one.

    ``missing`` are a model's that are not in the state, ``unexpected`` the state's that are not in
    the model: either may have the prefix. A wrapper's may stand within names, any other one first.
    """
    found = [
        *((each, _fitting_without(each, missing, unexpected)) for each in WRAPPERS),
        *_first_parts(missing, unexpected),
    ]
    prefix, count = max(found, key=lambda pair: pair[1])
    return (prefix, count) if count else ("", 0)


def _fitting_without(prefix: str, missing: Sequence[str], unexpected: Sequence[str]) -> int:
    wanted = {name.replace(prefix, "") for name in missing}
    given = {name.replace(prefix, "") for name in unexpected}
    has_it = any(prefix in name for name in (*missing, *unexpected))
    return len(wanted & given) if has_it else 0


def _first_parts(missing: Sequence[str], unexpected: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each first part of names without which many of them would fit, and how many."""
    least = max(LEAST_RENAMED_COUNT, RENAMED_RATIO * len(unexpected))
    for longer, shorter in ((unexpected, set(missing)), (missing, set(unexpected))):
        for first in dict.fromkeys(name.partition(".")[0] + "." for name in longer):
            count = sum(name.startswith(first) and name[len(first) :] in shorter for name in longer)
            if count >= least:
                yield first, count
