"""The random number generators that training may draw from: seeded, kept and put back."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

# NumPy's generator takes seeds of 32 bits.
SEEDS = 2**32


def seed(number: int, device: torch.device) -> None:
    """Seed the generators of Python, torch and the device, and NumPy's if it is there."""
    random.seed(number)
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number % SEEDS)


def state(device: torch.device) -> dict[str, Any]:
    """Return where the generators are; ``torch.load`` reads it back with ``weights_only``."""
    kept: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if device.type == "cuda":
        kept["cuda"] = torch.cuda.get_rng_state(device)
    if numpy := sys.modules.get("numpy"):
        kind, words, *rest = numpy.random.get_state()
        kept["numpy"] = (kind, words.tolist(), *rest)
    return kept


def restore(kept: dict[str, Any], device: torch.device) -> None:
    """Put back what ``state`` returned, as far as it is of generators that are here."""
    random.setstate(kept["python"])
    torch.set_rng_state(kept["torch"])
    if "cuda" in kept and device.type == "cuda":
        torch.cuda.set_rng_state(kept["cuda"], device)
    if "numpy" in kept and (numpy := sys.modules.get("numpy")):
        numpy.random.set_state(kept["numpy"])
