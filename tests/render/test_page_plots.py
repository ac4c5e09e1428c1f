"""What the plots of the page show, and that nothing in a report keeps the page from being made."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from page_samples import ODD_VALUES, bandwidth_fact, folded, measured, speeds, training, turns_fact
from pages import Page, text
from render_samples import healthy

from ddpcheck.measures.collective_speed import Speed
from ddpcheck.render import render
from ddpcheck.render.measured import thinned
from ddpcheck.render.page.bandwidth import bandwidth_plot, curves_of
from ddpcheck.render.page.drawing import drawn, label
from ddpcheck.render.page.losses import loss_plot
from ddpcheck.render.page.scaling import scaling_plot
from ddpcheck.render.page.steps import chosen, steps_plot
from ddpcheck.render.page.stragglers import stragglers_plot
from ddpcheck.render.page.trainings import parity_notes, parity_table, scaling_advice, scaling_table
from ddpcheck.report import FoldedFact, Report

FACTS = measured(2).facts
BLOCKS = "performance/waits-for-one-rank"


def of_facts(**facts: Any) -> Report:
    """Return a report with nothing but facts; names have _ for / and -."""
    known = {each.replace("/", "_").replace("-", "_"): each for each in (*FACTS, BLOCKS)}
    return structs.replace(healthy(), facts={known[name]: value for name, value in facts.items()})


def texts(svg: str) -> list[str]:
    return [text(each) for each in Page(svg).all_of("text")]


def test_bandwidth_is_the_bus_bandwidth_of_the_median_rank_within_its_spread() -> None:
    def speed(median_s: float) -> Speed:
        around = {"least_s": 0.0, "quarter_s": median_s / 2, "three_quarters_s": 2 * median_s}
        return Speed("all_reduce", "contiguous", 10**9, 5, median_s=median_s, p99_s=9.0, **around)

    curves = curves_of([[speed(0.1)], [speed(0.2)], [speed(0.4)]], world_size=2)
    (point,) = curves["all_reduce"]
    assert point == pytest.approx((10**9, 1.25, 5.0, 20.0))


def test_bandwidth_names_each_collective_and_what_the_links_carry() -> None:
    plot = bandwidth_plot(measured(4))
    assert plot is not None
    assert {"all_reduce", "all_gather_into_tensor", "broadcast", "all_reduce before"} <= set(
        texts(plot.svg)
    )
    assert "the slowest link (18 NVLinks of 26.6 GB/s) carries: 478 GB/s" in plot.caption
    assert plot.numbers.rows[0][:2] == ("all_reduce", "1 KiB")


def test_what_gloo_could_reach_is_what_loopback_carries() -> None:
    fact = {**bandwidth_fact(1, 2), "loopback_gbps": 1.761}
    plot = bandwidth_plot(of_facts(collectives_low_bandwidth=folded({0: fact})))
    assert plot is not None
    assert "one TCP connection over loopback carries: 1.76 GB/s" in plot.caption
    assert "baseline" not in plot.caption


def test_a_link_that_some_rank_cannot_tell_of_is_no_expectation() -> None:
    ways = [{"gbps": 478.1, "target": 1, "words": "18 NVLinks"}]
    links = folded({0: {"ways": ways}, 1: {"ways": None}})
    speeds_of = folded({0: bandwidth_fact(1, 2)})
    found = of_facts(collectives_low_bandwidth=speeds_of, collectives_far_below_links=links)
    plot = bandwidth_plot(found)
    assert plot is not None
    assert "carries" not in plot.caption


@pytest.mark.parametrize("world_size", [1, 0, -3, 10**12])
def test_one_rank_has_no_bandwidth(world_size: int) -> None:
    fact = {**bandwidth_fact(1, 2), "world_size": world_size}
    assert bandwidth_plot(of_facts(collectives_low_bandwidth=folded({0: fact}))) is None


def test_steps_have_a_bar_a_rank_and_a_colour_a_part() -> None:
    plot = steps_plot(measured(8))
    assert plot is not None
    assert {"data", "forward", "backward", "exposed comm", "optimizer"} <= set(texts(plot.svg))
    assert "47 ms on the slowest" in plot.caption
    assert [row[0] for row in plot.numbers.rows] == [str(rank) for rank in range(8)]
    assert plot.numbers.rows[6][-1] == "47"


def test_of_many_ranks_the_extremes_and_the_middle_one_are_shown() -> None:
    plot = steps_plot(measured(512))
    assert plot is not None
    shown = [row[0] for row in plot.numbers.rows]
    assert "510" in shown
    assert len(shown) == 17
    assert "the 8 slowest, the 8 fastest and the middle one" in plot.caption
    assert chosen({}) == {}


def test_a_watched_script_is_split_by_its_blocks() -> None:
    fact = {"blocks": [[0.001, 0.002, 0.010, 4], [0.003, 0.002, 0.010, 4]], "workers": 2}
    plot = steps_plot(of_facts(performance_waits_for_one_rank=[FoldedFact((0, 1), fact)]))
    assert plot is not None
    assert plot.numbers.rows == [("0", "2", "2", "6", "10"), ("1", "2", "2", "6", "10")]


def test_stragglers_are_told_by_compute_and_by_what_others_waited() -> None:
    plot = stragglers_plot(measured(8))
    assert plot is not None
    assert "takes longest on rank 6: 3.9 ms, 3 in the median" in plot.caption
    assert plot.numbers.rows[0] == ("6", "3.9", "24")
    assert plot.svg.count("var(--error)") == 2


def test_a_rank_that_no_finding_names_is_not_painted_as_an_alarm() -> None:
    plot = stragglers_plot(structs.replace(measured(8), findings=()))
    assert plot is not None
    assert "var(--error)" not in plot.svg


def test_many_ranks_share_bars_as_high_as_the_worst_of_them() -> None:
    plot = stragglers_plot(measured(512))
    assert plot is not None
    assert "A bar is the worst of 8 neighbours." in plot.caption
    assert plot.svg.count("var(--error)") == 2


def test_turns_as_an_earlier_version_wrote_them_are_drawn() -> None:
    def older(rank: int) -> dict[str, Any]:
        turns = turns_fact(rank, late=0)["turns"]
        return {"turns": {"compute_s": turns["pace_s"], "wait_s": turns["wait_s"]}}

    facts = folded({rank: older(rank) for rank in range(2)})
    plot = stragglers_plot(of_facts(collectives_late_rank=facts))
    assert plot is not None
    assert plot.numbers.rows[0] == ("0", "3.9", "24")
    assert stragglers_plot(of_facts(collectives_late_rank=facts[:1])) is None


def test_the_loss_goes_from_the_first_step_to_the_last() -> None:
    plot = loss_plot(training())
    assert plot is not None
    assert plot.caption == "The loss goes from 5.6 at step 0 to 2.506 at step 300."


@pytest.mark.parametrize("curve", [None, [], [[1, 2.0]], [[1]], "steps", [["1", 2.0], [2, "nan"]]])
def test_what_is_no_curve_is_left_out(curve: Any) -> None:
    assert loss_plot({"loss": curve}) is None


def test_a_loss_that_is_no_number_leaves_a_gap() -> None:
    plot = loss_plot({"loss": [[1, 5.0], [2, "nan"], [3, 4.0], [4, 10**400]]})
    assert plot is not None
    assert [row[0] for row in plot.numbers.rows] == ["1", "3"]


def test_parity_has_each_difference_beside_its_bound() -> None:
    table = parity_table(training())
    assert table is not None
    ddp, fsdp = (dict(zip(table.headers, row, strict=True)) for row in table.rows)
    assert (ddp["gradient"], ddp["result"]) == ("4.0e-07 ≤ 1.0e-06", "pass")
    assert (fsdp["gradient"], fsdp["options"]) == ("4.0e-05 > 1.0e-06", "cpu_offload")


def test_why_a_strategy_failed_or_was_left_out_is_told_below() -> None:
    assert parity_notes(training()) == [
        "fail: fsdp dp=2 cpu_offload: gradient head.weight at step 2, farthest off norm.bias",
        "skip: hsdp: it needs 4 ranks",
    ]


def test_speed_up_is_drawn_beside_what_would_be_perfect() -> None:
    plot = scaling_plot(training())
    assert plot is not None
    assert plot.caption.startswith(
        "The quickest, ddp is 1.80 times as fast as one process on 2 ranks"
    )
    assert plot.numbers.rows == [("ddp", "2", "1.80")]
    alone = {"rows": training()["scaling"]["rows"][:1]}
    assert scaling_plot({"scaling": alone}) is None
    assert scaling_plot({"scaling": [1]}) is None


def test_scaling_has_a_row_a_strategy_and_size_and_what_it_speaks_for() -> None:
    table = scaling_table(training())
    assert table is not None
    assert list(table.rows[1]) == [
        *("ddp", "dp=2", "1 MiB", "2", "19,800", "1.80", "90%", "10%", "7.2 MiB", "-")
    ]
    assert scaling_advice(training()) == [
        "strategy: ddp (the quickest on 2 ranks)",
        "left out: tp: 3 heads",
    ]


def test_the_training_is_not_told_of_twice() -> None:
    shown = Page(render(measured(2), "html")).text_of("section", id="training")
    assert "parity pass" not in shown


def test_points_that_are_left_out_are_between_the_ends() -> None:
    assert thinned(range(101), 5) == [0, 25, 50, 75, 100]
    assert thinned(range(3), 5) == [0, 1, 2]


def test_a_name_from_elsewhere_is_short_and_plain_in_a_plot() -> None:
    assert label("$x$ \u202e<b>\n" + "y" * 10**6) == "$x$ \\u202e<b> " + "y" * 23 + "..."


def test_a_hostile_name_stays_text_in_a_plot() -> None:
    evil = "</text><script>alert(1)</script>$\\frac{$\x1b[2J\ud800"
    fact = {**bandwidth_fact(1, 2), "speeds": [{**each, "kind": evil} for each in speeds()]}
    plot = bandwidth_plot(of_facts(collectives_low_bandwidth=folded({0: fact})))
    assert plot is not None
    assert not list(Page(plot.svg).all_of("script"))
    assert label(evil) in texts(plot.svg)


def test_plots_have_the_colours_of_the_page_and_no_date() -> None:
    def paint(figure: Any) -> None:
        figure.add_subplot().plot([1, 2], [3, 4])

    svg = drawn("a", 'said "aloud"', paint)
    assert "var(--ink)" in svg
    assert 'aria-label="said &quot;aloud&quot;"' in svg
    assert not {"#01", "#02", "#03", "metadata", "dc:date"} & set(svg.split('"'))
    assert "<style" not in svg
    assert svg == drawn("a", 'said "aloud"', paint)


@pytest.mark.parametrize("odd", ODD_VALUES, ids=lambda value: ascii(value)[:9])
def test_a_field_of_any_shape_leaves_its_plot_out(odd: Any) -> None:
    fact = {**bandwidth_fact(1, 2), "speeds": odd}
    assert bandwidth_plot(of_facts(collectives_low_bandwidth=folded({0: fact}))) is None
    spoilt = folded({0: {"split": odd}, 1: {"split": odd}})
    assert steps_plot(of_facts(performance_exposed_communication=spoilt)) is None
    assert stragglers_plot(of_facts(collectives_late_rank=folded({0: {"turns": odd}}))) is None


PLAIN = st.recursive(
    st.sampled_from(ODD_VALUES) | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=25)
@given(check=st.sampled_from(sorted(FACTS)), data=st.data())
def test_facts_of_another_version_never_keep_the_page_from_being_made(
    check: str, data: st.DataObject
) -> None:
    folds = [FoldedFact(fact.ranks, _spoilt(fact.value, data)) for fact in FACTS[check]]
    Page(render(structs.replace(healthy(), facts={check: folds}, training=None), "html"))


@settings(deadline=None, max_examples=25)
@given(part=st.sampled_from(sorted(training())), data=st.data())
def test_a_training_of_another_version_never_keeps_the_page_from_being_made(
    part: str, data: st.DataObject
) -> None:
    spoilt = {**training(), part: _spoilt(training()[part], data)}
    Page(render(structs.replace(healthy(), facts={}, training=spoilt), "html"))


def _spoilt(value: Any, data: st.DataObject) -> Any:
    """Return a value with something in it, at some depth, as nobody writes it."""
    if isinstance(value, Mapping) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: _spoilt(value[key], data)}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(value) - 1))
        return [*value[:place], _spoilt(value[place], data), *value[place + 1 :]]
    return data.draw(PLAIN)
