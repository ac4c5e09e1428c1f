"""From which checkpoint a training goes on, if from any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ddpcheck.errors import UsageError
from ddpcheck.train.checkpoint_folder import CheckpointFolder, read_manifest, whole_manifest
from ddpcheck.train.manifest import Terms, other_training

# How often whoever started the ranks has started them anew: torch's elastic agent, Slurm.
RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def restarted(environ: Mapping[str, str]) -> bool:
    """Return whether the launcher has started this job before."""
    return any(environ.get(name, "0") not in ("", "0") for name in RESTARTS)


def checkpoint_to_resume(
    folder: CheckpointFolder, terms: Terms, *, asked: bool, again: bool
) -> Path | None:
    """Return the checkpoint to go on from; None: the training begins.

    asked: the user wants to resume. again: the launcher has started this training anew, after it
    broke; it goes on from what there is, unasked. Raises UsageError where there is nothing to
    resume, or what there is cannot be; and where an unfinished training would be lost.
    """
    latest = folder.latest()
    if latest is None:
        if asked:
            raise UsageError(
                f"there is no checkpoint in {folder.path} to resume: leave out --resume, or name the "
                "folder with --checkpoint-dir"
            )
        return None
    if asked or again:
        return _resumable(latest, terms)
    past = read_manifest(latest)
    if past.resumable and past.past.step < past.terms.steps:
        raise UsageError(
            f"{latest} is of a training that was stopped after step {past.past.step} of "
            f"{past.terms.steps}: go on with --resume, or remove it, or choose another "
            "--checkpoint-dir"
        )
    return None


def _resumable(latest: Path, terms: Terms) -> Path:
    manifest = whole_manifest(latest)
    if not manifest.resumable:
        raise UsageError(
            f"{latest} has the weights alone, as --checkpoint-every 0 keeps them: nothing to resume"
        )
    if reason := other_training(manifest.terms, terms):
        raise UsageError(f"cannot resume from {latest}: {reason}")
    return latest
