from collections.abc import Iterator

import msgspec
import pytest

from ddpcheck.network.echo import Listener, Talk, listen
from ddpcheck.network.links import measured_links, settled, trips_s
from ddpcheck.network.reach import Reach, Reached
from ddpcheck.network.roster import Seat

HERE = Listener("127.0.0.1", 1, "token")
CLEAN = Talk(Reach(Reached.OPEN, "", "", 0.0), sent_count=700)
LOSSY = msgspec.structs.replace(CLEAN, retransmitted_count=20)
LOSSIER = msgspec.structs.replace(CLEAN, retransmitted_count=40)
UNREACHED = Talk(Reach(Reached.FILTERED, "", "", 0.0))


@pytest.mark.parametrize(
    ("talks", "counted"),
    [
        ([CLEAN], CLEAN),
        ([UNREACHED], UNREACHED),
        ([LOSSY, CLEAN], CLEAN),
        ([LOSSY, LOSSIER], LOSSY),
        ([LOSSIER, LOSSY], LOSSY),
        ([LOSSY, UNREACHED], LOSSY),
    ],
)
def test_loss_has_to_be_seen_twice(talks: list[Talk], counted: Talk) -> None:
    told: Iterator[Talk] = iter(talks)
    assert settled(HERE, lambda _listener, _timeout_s: next(told)) == counted
    assert next(told, None) is None


def test_time_that_is_up_leaves_links_out() -> None:
    listener = listen("127.0.0.1", "token", 10.0)
    seats = [Seat(f"node{n}", f"p{n}", listener) for n in range(3)]
    times = iter([0.0, 1.0, 3.0, 4.0])
    links = list(measured_links(seats, lambda: next(times)))
    assert [link.host for link in links] == ["node0", "node1"]


def test_of_both_ways_the_shorter_round_trip_counts() -> None:
    def trip(trip_s: float) -> Talk:
        return msgspec.structs.replace(CLEAN, round_trip_min_s=trip_s)

    talks = {("a", "b"): trip(0.5), ("b", "a"): trip(0.1), ("a", "c"): trip(0.2)}
    assert trips_s(talks) == {("a", "b"): 0.1, ("b", "a"): 0.1, ("a", "c"): 0.2}
    assert trips_s({("a", "b"): CLEAN}) == {}
