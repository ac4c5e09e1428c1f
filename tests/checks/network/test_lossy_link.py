from itertools import permutations

import msgspec
import pytest

from ddpcheck.checks.network.lossy_link import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.network.echo import LARGE_BYTES, Talk
from ddpcheck.network.links import Link
from ddpcheck.network.reach import Reach, Reached
from ddpcheck.network.roster import Here

OPEN = Reach(Reached.OPEN, "10.0.0.1:4000", "", 0.001)
HEALTHY = Talk(
    reach=OPEN,
    round_trip_min_s=0.0001,
    round_trip_median_s=0.0002,
    large_s=0.01,
    acknowledged_bytes=LARGE_BYTES + 4,
    small_passes=True,
    sent_count=748,
    retransmitted_count=0,
    path_mtu_bytes=1500,
)
GONE = msgspec.structs.replace(
    HEALTHY, large_s=None, acknowledged_bytes=0, sent_count=34, retransmitted_count=3
)
FILTERED = Talk(Reach(Reached.FILTERED, "10.0.0.1:4000", "", 2.0))


def changed(**changes: object) -> Talk:
    return msgspec.structs.replace(HEALTHY, **changes)


def hosts(count: int, talks: dict[str, Talk] | None = None) -> dict[int, Facts]:
    """Return the facts of two ranks a host; ``talks`` has pairs such as "0>1", or "*>1"."""
    talks = talks or {}
    links: dict[int, list[Link]] = {host: [] for host in range(count)}
    for here, to in permutations(range(count), 2):
        keys = (f"{here}>{to}", f"*>{to}", f"{here}>*")
        told = next((talks[key] for key in keys if key in talks), HEALTHY)
        links[here].append(Link(f"node{to}", f"p{to}", told))
    return {
        2 * host + local: Facts(
            Here(f"node{host}", f"p{host}", ""), () if local else tuple(links[host])
        )
        for host in range(count)
        for local in range(2)
    }


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(hosts(2), id="two hosts"),
        pytest.param(hosts(16), id="16 hosts"),
        pytest.param(hosts(3, {"*>1": FILTERED}), id="what cannot be reached is told elsewhere"),
        pytest.param(
            hosts(3, {"*>1": changed(retransmitted_count=3)}), id="three packets by chance"
        ),
        pytest.param(
            hosts(3, {"*>1": changed(sent_count=1748, retransmitted_count=8)}), id="few of many"
        ),
        pytest.param(
            hosts(
                2, {"*>*": changed(round_trip_min_s=0.08), "0>1": changed(round_trip_min_s=0.08)}
            ),
            id="two hosts, one of them busy",
        ),
        pytest.param(
            hosts(3, dict.fromkeys(["*>0", "*>1", "*>2"], changed(round_trip_min_s=0.08))),
            id="all far from all, which is known",
        ),
        pytest.param(hosts(3, {"*>2": changed(round_trip_min_s=0.004)}), id="another zone"),
        pytest.param(
            hosts(2, {"0>1": changed(large_s=None, acknowledged_bytes=400_000)}),
            id="a listener that was stopped for a moment",
        ),
        pytest.param(
            hosts(
                2,
                {
                    "0>1": changed(
                        large_s=None,
                        acknowledged_bytes=0,
                        small_passes=False,
                        retransmitted_count=3,
                    )
                },
            ),
            id="a host that went away",
        ),
        pytest.param(
            hosts(2, {"0>1": Talk(OPEN, small_passes=True)}), id="a listener without an answer"
        ),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_no_links_are_no_fault() -> None:
    facts = {rank: msgspec.structs.replace(own, links=()) for rank, own in hosts(2).items()}
    assert judge(facts) == []
    assert summarize(facts) == "no link could be measured"


@pytest.mark.parametrize("count", [2, 3, 100])
def test_large_messages_that_get_lost(count: int) -> None:
    (finding,) = judge(hosts(count, {"*>1": GONE}))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (2, 3)
    assert "node0 to node1" in finding.message
    assert "1500" in finding.message
    assert "mtu" in finding.fix
    assert len(finding.message) < 2000


@pytest.mark.parametrize("count", [2, 3, 100])
def test_packets_that_get_lost(count: int) -> None:
    (finding,) = judge(hosts(count, {"*>1": changed(sent_count=766, retransmitted_count=18)}))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.ranks == (2, 3)
    assert "18 of 766" in finding.message
    assert "node1" in finding.fix


def test_a_host_that_is_far_from_the_others() -> None:
    far = changed(round_trip_min_s=0.03)
    (finding,) = judge(hosts(4, {"*>2": far, "2>*": far}))
    assert finding.severity is Severity.WARNING
    assert finding.ranks == (4, 5)
    assert "30.0 ms" in finding.message
    assert "5.0 ms" in finding.message
    assert "node2" in finding.fix


def test_one_busy_end_is_no_long_way() -> None:
    assert judge(hosts(4, {"*>2": changed(round_trip_min_s=0.03)})) == []


def test_summary() -> None:
    assert summarize(hosts(3, {"*>1": FILTERED})).startswith("4 links")
    assert summarize(hosts(2)) == "2 links, round trips 0.10 to 0.10 ms"
