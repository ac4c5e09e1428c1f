"""The strategies: one file each, found by walking this folder; nothing is registered by hand.

To add one, copy ``single.py``: ``ddpcheck/train/parallel.py`` says what a strategy is.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # the command line lists the strategies, and must not import torch
    from ddpcheck.train.parallel import Strategy


def strategy_names() -> list[str]:
    """Return the names of all strategies, in alphabetical order; imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def strategy_named(name: str) -> Strategy:
    """Return the strategy of this name, which must be one of ``strategy_names``."""
    return cast("Strategy", import_module(f"{__name__}.{name}"))
