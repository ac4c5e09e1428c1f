"""The reference training under Ray Train: a function for TorchTrainer, and a program that runs it.

In each of Ray's workers the function trains as one rank of ``ddpcheck train``; the fields of
``ddpcheck.settings.TrainSettings`` are its configuration::

    python -m ddpcheck.train.ray 8 report=/shared/reports/latest strategy=fsdp

Paths must be absolute: Ray's workers have folders of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, cast

import msgspec

from ddpcheck.errors import ExitCode, UsageError
from ddpcheck.settings import TrainSettings
from ddpcheck.train.planning import ALL
from ddpcheck.train.rank import train_rank
from ddpcheck.train.strategies import strategy_names


class TrainingFailedError(RuntimeError):
    """What ends a worker whose training failed; the worker's output says why it did."""


def train_worker(config: dict[str, Any]) -> None:
    """Be one worker: train as ``ddpcheck train`` does with these settings.

    The report is read, and written, on the host of rank 0. Raises UsageError for a setting that
    there is not, and TrainingFailedError with the exit code.
    """
    code = train_rank(settings_from(config))
    if code != ExitCode.OK:
        raise TrainingFailedError(f"the training ended with exit code {code}")


def settings_from(config: Mapping[str, Any]) -> TrainSettings:
    """Return the settings, whose values may be texts; raises UsageError for what there is not."""
    known = [field.name for field in fields(TrainSettings)]
    if strangers := sorted(set(config) - set(known)):
        raise UsageError(f"{strangers[0]}: choose from {', '.join(known)}")
    try:
        settings = msgspec.convert(dict(config), TrainSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"settings of the training: {error}") from error
    if settings.strategy not in (names := [*strategy_names(), ALL]):
        raise UsageError(f"strategy {settings.strategy}: choose from {', '.join(names)}")
    return settings


def train_under_ray(workers: int, config: Mapping[str, Any]) -> None:
    """Train in so many workers of the Ray that RAY_ADDRESS names, or else of a new one.

    Each has a GPU, where that Ray has any. Raises ray.train.TrainingFailedError.
    """
    import ray
    from ray.train import ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    ray.init(ignore_reinit_error=True)
    has_gpus = "GPU" in cast(Any, ray).cluster_resources()
    TorchTrainer(
        train_worker,
        train_loop_config=dict(config),
        # Workers only meet in the group that Ray makes: the training makes one of its own.
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=has_gpus),
    ).fit()


if __name__ == "__main__":
    asked = dict(word.split("=", 1) for word in sys.argv[2:])
    settings_from(asked)  # a wrong word is better told before Ray starts
    train_under_ray(int(sys.argv[1]), asked)
