"""Metrics, as the client library of Prometheus reads them, in both of its formats."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families
from render_samples import SAMPLES, run, sample
from sample_parts import check, ranks, report

from ddpcheck.measures.bus_bandwidth import bus_gbps
from ddpcheck.render.formats import openmetrics
from ddpcheck.report import FoldedFact, Report

Parser = Callable[[str], Iterable[Metric]]
NEWER: Parser = openmetrics_parser.text_string_to_metric_families
PARSERS: list[Parser] = [text_string_to_metric_families, NEWER]


def samples_of(shown: Report, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    text = openmetrics.render(shown)
    families = NEWER(text)
    return {
        tuple(sorted(each.labels.items())): each.value
        for family in families
        for each in family.samples
        if each.name == name
    }


def value_of(shown: Report, name: str, **labels: str) -> float:
    found = [
        value
        for own, value in samples_of(shown, name).items()
        if labels.items() <= dict(own).items()
    ]
    (value,) = found
    return value


@pytest.mark.parametrize("name", [*SAMPLES, "many_ranks"])
@pytest.mark.parametrize("parser", PARSERS)
def test_the_client_library_reads_it(name: str, parser: Parser) -> None:
    families = list(parser(openmetrics.render(sample(name))))
    names = [family.name for family in families]
    assert "ddpcheck_check_outcome" in names
    assert len(names) == len(set(names))
    assert all(family.type == "gauge" and family.documentation for family in families)


def test_both_formats_read_the_same() -> None:
    text = openmetrics.render(sample("hostile"))
    first, second = ([s for f in parser(text) for s in f.samples] for parser in PARSERS)
    assert first == second


def test_the_verdict_and_the_time_are_told() -> None:
    shown = sample("one_rank_dead")
    assert value_of(shown, "ddpcheck_verdict_info", verdict="incomplete", backend="nccl") == 1
    assert value_of(shown, "ddpcheck_run_timestamp_seconds") == 1795817403
    assert value_of(shown, "ddpcheck_run_duration_seconds") == 4.2


def test_ranks_and_findings_are_counted() -> None:
    shown = sample("many_ranks")
    assert value_of(shown, "ddpcheck_ranks", outcome="ok") == 4087
    assert value_of(shown, "ddpcheck_ranks", outcome="lost") == 1
    assert value_of(shown, "ddpcheck_findings_by_severity", severity="error") == 2
    assert value_of(shown, "ddpcheck_findings_by_severity", severity="info") == 0
    assert value_of(shown, "ddpcheck_findings", check="ranks/lost", severity="error") == 1


def test_a_check_has_its_outcome_and_its_seconds() -> None:
    shown = sample("healthy")
    assert (
        value_of(shown, "ddpcheck_check_outcome", check="devices/gpu-shared", outcome="skip") == 1
    )
    assert value_of(shown, "ddpcheck_check_duration_seconds", check="performance/straggler") == 12.3


def test_bandwidth_is_in_bytes_a_second_of_the_slowest_rank() -> None:
    name = "ddpcheck_collective_bus_bandwidth_bytes_per_second"
    told = value_of(sample("slow_link"), name, size_bytes=str(1 << 26), collective="all_reduce")
    assert told == pytest.approx(1e9 * bus_gbps("all_reduce", 16, 1 << 26, 5.64e-3 * 1.015))
    assert value_of(sample("slow_link"), "ddpcheck_step_duration_seconds") == 0.0386


@pytest.mark.parametrize("value", [7, {}, {"speeds": "no"}, {"speeds": [{}], "world_size": "x"}])
def test_facts_that_cannot_be_read_are_left_out(value: Any) -> None:
    facts = {"collectives/low-bandwidth": [FoldedFact((0,), value)]}
    of = report(run(world_size=1, hosts=()), ranks(1, 1), [check("launch/a")], facts=facts)
    assert samples_of(of, "ddpcheck_collective_duration_seconds") == {}


def test_a_training_is_told() -> None:
    assert value_of(sample("healthy"), "ddpcheck_training_tokens_per_second") == 12345.6
    assert samples_of(sample("hostile"), "ddpcheck_training_tokens_per_second") == {}


def test_quotes_and_backslashes_are_escaped() -> None:
    of = report(run(world_size=1, hosts=(), launcher='a"b\\n', started_at="never"), ranks(1, 1), [])
    assert value_of(of, "ddpcheck_verdict_info", launcher='a"b\\n') == 1
    assert samples_of(of, "ddpcheck_run_timestamp_seconds") == {}


def test_there_are_as_many_samples_for_many_ranks() -> None:
    assert len(openmetrics.render(sample("many_ranks")).splitlines()) < 60
