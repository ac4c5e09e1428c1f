"""The recipe: what a training run does, from the user's settings and the report."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ddpcheck.errors import UsageError
from ddpcheck.finding import Recommendation
from ddpcheck.settings import TrainSettings

BACKENDS = ("gloo", "nccl")
PRECISIONS = ("fp32", "bf16", "fp16")


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that must be alike on all ranks.

    strategy: a name of ``ddpcheck/train/strategies``. mesh: axis -> ranks along it, the outermost
    first. options: what the strategy alone knows. micro_batches: into how many pieces a rank cuts
    its share of the batch; 0, before there is a plan, for as few as the strategy needs. device: ``cpu`` or ``cuda``. bucket_cap_mb: MiB, None for torch's own.
    """

    strategy: str
    backend: str
    device: str
    mesh: Mapping[str, int] = {}
    options: Mapping[str, str] = {}
    micro_batches: int = 1
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

    Its strategy and mesh are as asked for: see ``ddpcheck/train/planning.py``. ``gpus`` says whether every rank has a GPU. Raises UsageError for a value that no
    training run can use.
    """
    advice = {name: recommended[name].value for name in recommended}
    backend = _backend(settings, advice, gpus=gpus)
    asked = {"precision": settings.precision} if settings.precision else {}
    chosen = {
        **_known(advice),
        **asked,
        "strategy": settings.strategy,
        "mesh": {axis.name: axis.size for axis in settings.mesh},
        "options": dict(settings.options),
        "micro_batches": settings.micro_batches or 0,
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


def rank_batch(global_batch: int, data_ranks: int) -> int:
    """Return the share of each of so many ranks; raises UsageError unless all get the same."""
    if global_batch < data_ranks or global_batch % data_ranks:
        above = -(-max(global_batch, 1) // data_ranks) * data_ranks
        raise UsageError(
            f"--global-batch {global_batch} cannot be shared by {data_ranks} ranks: use {above}"
        )
    return global_batch // data_ranks


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
