from collections.abc import Mapping

import pytest
from standings import stands

from ddpcheck.network.attempts import Attempt, Hosts, attempts_at, in_words
from ddpcheck.network.echo import Listener, listen
from ddpcheck.network.reach import Reached
from ddpcheck.network.roster import Seat
from ddpcheck.network.standing import Standing

HERE = "127.0.0.1"
ETH0 = {"a": ("eth0", "10.0.0.1"), "b": ("eth0", "10.0.0.2")}
NONE: Mapping[str, tuple[str, str]] = {}
ETH1 = {"a": ("eth1", "10.1.0.1"), "b": ("eth1", "10.1.0.2")}


def attempt(place: str, address: str, kind: Reached = Reached.FILTERED) -> Attempt:
    return Attempt(f"host {place}", place, address, kind)


def pair(
    backend: str = "nccl", others: Mapping[str, tuple[str, str]] = NONE
) -> dict[str, Standing]:
    """Return two hosts with eth0, and what those have beside it that are named."""
    used = {
        place: [eth0, *([others[place]] if place in others else [])] for place, eth0 in ETH0.items()
    }
    return {p: stands(p, *each, backend=backend, way=ETH0[p]) for p, each in used.items()}


@pytest.mark.parametrize(
    ("standings", "begin", "tried", "needed"),
    [
        pytest.param(pair(), "a", attempt("b", "10.0.0.2"), True, id="NCCL, up"),
        pytest.param(pair(), "b", attempt("a", "10.0.0.1"), True, id="NCCL, down"),
        pytest.param(pair("gloo"), "a", attempt("b", "10.0.0.2"), False, id="gloo, up"),
        pytest.param(pair("gloo"), "b", attempt("a", "10.0.0.1"), True, id="gloo, down"),
        pytest.param(
            pair(others=ETH1), "a", attempt("b", "10.1.0.2"), True, id="all have a second"
        ),
        pytest.param(
            pair(others={"b": ETH1["b"]}), "a", attempt("b", "10.1.0.2"), False, id="one has it"
        ),
        pytest.param(pair("gloo", ETH1), "a", attempt("b", "10.1.0.2"), False, id="gloo, 2nd up"),
        pytest.param(pair("gloo", ETH1), "b", attempt("a", "10.1.0.1"), True, id="gloo, 2nd"),
        pytest.param({}, "a", attempt("b", "10.0.0.2"), True, id="not known"),
    ],
)
def test_which_ways_a_backend_needs(
    standings: dict[str, Standing], begin: str, tried: Attempt, needed: bool
) -> None:
    assert Hosts(standings).need(tried, begin) is needed


def test_a_loopback_that_gloo_tells_decides_who_connects() -> None:
    # The host whose name leads to 127.0.1.1 has the higher address, and calls the other one.
    standings = pair("gloo") | {
        "a": stands("a", ("lo", "127.0.1.1"), backend="gloo", way=ETH0["a"])
    }
    assert Hosts(standings).need(attempt("b", "10.0.0.2"), "a")


@pytest.mark.parametrize(
    ("standings", "tried", "is_judged"),
    [
        pytest.param(pair(), attempt("b", "10.0.0.2"), True, id="its own"),
        pytest.param(pair(), attempt("b", "10.9.9.9"), False, id="spare"),
        pytest.param({}, attempt("b", "10.0.0.2"), True, id="not known"),
        pytest.param(
            pair(others=dict.fromkeys(ETH0, ("br0", "172.18.0.1"))),
            attempt("b", "172.18.0.1"),
            False,
            id="on both hosts",
        ),
        pytest.param(
            pair(others={"b": ("eth1", "fd00::2")}),
            attempt("b", "fd00::2"),
            False,
            id="other family",
        ),
    ],
)
def test_what_another_check_says_is_left_out(
    standings: dict[str, Standing], tried: Attempt, is_judged: bool
) -> None:
    assert Hosts(standings).used({("a", "b"): [tried]}) == (
        {("a", "b"): [tried]} if is_judged else {}
    )


def test_a_shared_address_that_was_named_for_nccl_is_said_by_nobody_else() -> None:
    bridge = ("docker0", "172.17.0.1")
    standings = {
        place: stands(place, eth0, bridge, setting="eth0,docker0", way=eth0)
        for place, eth0 in ETH0.items()
    }
    tried = {("a", "b"): [attempt("b", "172.17.0.1")]}
    assert Hosts(standings).used(tried) == tried


def test_the_way_that_is_open_is_the_better_one() -> None:
    hosts = Hosts({p: stands(p, ETH1[p], way=ETH0[p]) for p in ETH0})
    lost, opened = attempt("b", "10.1.0.2"), attempt("b", "10.0.0.2", Reached.OPEN)
    assert hosts.better_way(lost, [lost, opened]) == "eth0"
    assert hosts.better_way(lost, [lost, attempt("b", "10.0.0.2")]) == ""
    assert hosts.better_way(lost, [lost]) == ""
    assert hosts.better_way(attempt("c", "10.1.0.3"), [opened]) == ""


def test_a_spare_listener_is_tried_when_another_was_not_reached() -> None:
    good = listen(HERE, "token", 30.0)
    closed = Listener(HERE, 1, "token")
    seats = [Seat("host", "fine", good, spare=good), Seat("host", "odd", closed, spare=good)]
    told = [(each.place, each.kind) for each in attempts_at(seats)]
    assert told == [("fine", Reached.OPEN), ("odd", Reached.REFUSED), ("odd", Reached.OPEN)]


def test_pairs_that_failed_alike_are_told_together() -> None:
    tried = {("a", "b"): [attempt("b", "1.2.3.4")], ("c", "b"): [attempt("b", "1.2.3.4")]}
    told = in_words({"a": "A", "b": "B", "c": "C"}, tried)
    assert told == "A to host b (1.2.3.4), C to host b (1.2.3.4): no answer within 3.5 s"
