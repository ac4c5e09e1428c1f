"""The checks that a run was asked for, with the severities and thresholds of its settings file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ddpcheck.catalogue import catalogue, select
from ddpcheck.check import Check
from ddpcheck.configuration import Configuration
from ddpcheck.settings import RunSettings
from ddpcheck.thresholds import with_thresholds


def chosen(settings: RunSettings) -> tuple[Check, ...]:
    """Return the checks that are selected; raises UsageError for an entry that matches nothing."""
    return configured(select(catalogue(), settings.select, settings.skip), settings.configuration)


def configured(checks: Iterable[Check], asked: Configuration) -> tuple[Check, ...]:
    """Return the checks as ``asked`` has them; the ones given are not changed."""
    return tuple(
        replace(
            with_thresholds(check, asked.thresholds_of(check.id)),
            severity=asked.severity_of(check.id),
        )
        for check in checks
    )
