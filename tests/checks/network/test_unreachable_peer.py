import msgspec
import pytest
from standings import stands

from ddpcheck.checks.network.unreachable_peer import Facts, judge, summarize
from ddpcheck.finding import Confidence, Severity
from ddpcheck.network.attempts import Attempt
from ddpcheck.network.reach import Reached
from ddpcheck.network.roster import Here


def hosts(
    count: int,
    failed: dict[str, Reached] | None = None,
    address: str = "10.0.0.{}",
    backend: str = "nccl",
) -> dict[int, Facts]:
    """Return the facts of two ranks a host; ``failed`` has pairs of hosts such as "0>1"."""
    failed = failed or {}

    def attempts(here: int) -> tuple[Attempt, ...]:
        return tuple(
            Attempt(
                f"node{to}", f"p{to}", address.format(to), failed.get(f"{here}>{to}", Reached.OPEN)
            )
            for to in range(count)
            if to != here
        )

    return {
        2 * host + local: Facts(
            Here(f"node{host}", f"p{host}", address.format(host)),
            "32768-60999",
            stands(f"node{host}", ("eth0", address.format(host)), backend=backend),
            attempts(host) if local == 0 else (),
        )
        for host in range(count)
        for local in range(2)
    }


def towards(host: int, count: int, kind: Reached) -> dict[str, Reached]:
    return {f"{begin}>{host}": kind for begin in range(count)}


@pytest.mark.parametrize("count", [2, 3, 16])
def test_silent(count: int) -> None:
    facts = hosts(count)
    assert judge(facts) == []
    pairs = count * (count - 1)
    assert summarize(facts) == f"{count} hosts, {pairs} of {pairs} connections between them opened"


def test_no_attempt_is_no_failure() -> None:
    facts = {r: msgspec.structs.replace(own, attempts=()) for r, own in hosts(2).items()}
    assert judge(facts) == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Reached.FILTERED, ["no answer"]),
        (Reached.REFUSED, ["refused"]),
        (Reached.NO_ROUTE, ["no route"]),
    ],
)
@pytest.mark.parametrize("count", [2, 3, 100])
def test_a_host_behind_a_firewall(count: int, kind: Reached, words: list[str]) -> None:
    (finding,) = judge(hosts(count, towards(1, count, kind)))
    assert (finding.severity, finding.confidence) == (Severity.ERROR, Confidence.HIGH)
    assert finding.ranks == (2, 3)
    assert [
        word for word in [*words, "node0 to node1 (10.0.0.1)"] if word not in finding.message
    ] == []
    assert "32768-60999" in finding.fix
    assert "iptables" in finding.fix
    assert "security group of node1" in finding.fix
    assert len(finding.message) < 500


def test_a_host_that_reaches_nobody() -> None:
    (finding,) = judge(hosts(3, {"2>0": Reached.FILTERED, "2>1": Reached.REFUSED}))
    assert finding.ranks == (4, 5)
    assert "cannot reach" in finding.title
    assert "no answer" in finding.message
    assert "refused" in finding.message


def test_a_host_that_is_cut_off() -> None:
    failed = towards(2, 3, Reached.FILTERED) | {f"2>{to}": Reached.FILTERED for to in range(2)}
    (finding,) = judge(hosts(3, failed))
    assert finding.ranks == (4, 5)
    assert "cut off" in finding.title


def test_nobody_reaches_anybody() -> None:
    failed = {f"{a}>{b}": Reached.FILTERED for a in range(40) for b in range(40)}
    (finding,) = judge(hosts(40, failed))
    assert finding.ranks == tuple(range(80))
    assert "more" in finding.message
    assert len(finding.message) + len(finding.fix) < 1000


def test_one_pair_of_hosts() -> None:
    (finding,) = judge(hosts(4, {"1>3": Reached.FILTERED}))
    assert finding.ranks == (2, 3, 6, 7)


@pytest.mark.parametrize("kind", [Reached.CLOSED, Reached.SILENT, Reached.OTHER])
def test_a_sidecar(kind: Reached) -> None:
    (finding,) = judge(hosts(3, towards(1, 3, kind)))
    assert finding.ranks == (2, 3)
    assert "sidecar.istio.io/inject" in finding.fix
    assert "iptables" not in finding.fix


def test_an_address_that_several_hosts_have_is_left_to_the_check_of_interfaces() -> None:
    failed = {"0>1": Reached.REFUSED, "1>0": Reached.REFUSED}
    assert judge(hosts(2, failed, address="172.17.0.1")) == []


@pytest.mark.parametrize(
    ("backend", "failed", "severity"),
    [
        ("gloo", "0>1", Severity.WARNING),
        ("gloo", "1>0", Severity.ERROR),
        ("nccl", "0>1", Severity.ERROR),
        ("nccl", "1>0", Severity.ERROR),
    ],
)
def test_gloo_calls_from_the_higher_address_only(
    backend: str, failed: str, severity: Severity
) -> None:
    (finding,) = judge(hosts(2, {failed: Reached.FILTERED}, backend=backend))
    to = int(failed[-1])
    assert (finding.severity, finding.ranks) == (severity, (2 * to, 2 * to + 1))
    assert ("gloo connects the other way" in finding.message) is (severity is Severity.WARNING)


def test_one_cause_is_one_finding_though_gloo_needs_but_some_of_its_ways() -> None:
    (finding,) = judge(hosts(3, towards(1, 3, Reached.FILTERED), backend="gloo"))
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2, 3))


def test_facts_without_a_standing_are_judged_as_needed() -> None:
    facts = hosts(2, {"0>1": Reached.FILTERED}, backend="gloo")
    known = {rank: msgspec.structs.replace(own, standing=None) for rank, own in facts.items()}
    (finding,) = judge(known)
    assert (finding.severity, finding.ranks) == (Severity.ERROR, (2, 3))
