"""The recipe: what a training run does, from the user's settings and the report."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.errors import UsageError
from ddpcheck.finding import Recommendation
from ddpcheck.settings import TrainSettings

BACKENDS = ("gloo", "nccl")
PRECISIONS = ("fp32", "bf16", "fp16")
STRATEGIES = ("ddp",)


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that must be alike on all ranks.

    device: ``cpu`` or ``cuda``. bucket_cap_mb: MiB, None for torch's own size.
    """

    strategy: str
    backend: str
    device: str
    precision: str = "fp32"
    find_unused_parameters: bool = False
    gradient_as_bucket_view: bool = False
    bucket_cap_mb: float | None = None
    dataloader_workers: int = 0
    sync_batchnorm: bool = False


def recipe_from(
    settings: TrainSettings, recommended: Mapping[str, Recommendation], *, gpus: bool
) -> Recipe:
    """Return the recipe: the user's word first, then the report's, then torch's defaults.

    ``gpus`` says whether every rank has a GPU. Raises UsageError for a value that no
    training run can use.
    """
    if settings.strategy not in STRATEGIES:
        raise UsageError(f"--strategy {settings.strategy}: choose {' or '.join(STRATEGIES)}")
    advice = {name: recommended[name].value for name in recommended}
    backend = _backend(settings, advice, gpus=gpus)
    asked = {"precision": settings.precision} if settings.precision else {}
    chosen = {
        **_known(advice),
        **asked,
        "strategy": settings.strategy,
        "backend": backend,
        "device": "cuda" if backend == "nccl" else "cpu",
    }
    try:
        recipe = msgspec.convert(chosen, Recipe)
    except msgspec.ValidationError as error:
        raise UsageError(f"the report recommends what cannot be used: {error}") from error
    if recipe.precision not in PRECISIONS:
        raise UsageError(f"--precision {recipe.precision}: choose {', '.join(PRECISIONS)}")
    return recipe


def rank_batch(global_batch: int, world_size: int) -> int:
    """Return the batch of one rank; raises UsageError unless all ranks get the same."""
    if global_batch < world_size or global_batch % world_size:
        above = -(-max(global_batch, 1) // world_size) * world_size
        raise UsageError(
            f"--global-batch {global_batch} cannot be shared by {world_size} ranks: use {above}"
        )
    return global_batch // world_size


def _backend(settings: TrainSettings, advice: Mapping[str, object], *, gpus: bool) -> str:
    advised = advice.get("backend")
    if advised is None and "device" in advice:
        advised = "nccl" if str(advice["device"]).startswith("cuda") else "gloo"
    asked = None if settings.backend == "auto" else settings.backend
    backend = str(asked or advised or ("nccl" if gpus else "gloo"))
    if backend not in BACKENDS:
        raise UsageError(f"--backend {backend}: choose {' or '.join(BACKENDS)}")
    if backend == "nccl" and not gpus:
        raise UsageError("backend nccl needs a GPU for every rank: use --backend gloo")
    return backend


def _known(advice: Mapping[str, object]) -> dict[str, object]:
    # A newer report may recommend what this version cannot follow.
    return {name: value for name, value in advice.items() if name in Recipe.__struct_fields__}
