import pytest

from ddpcheck.checks.launch.uncounted_restart import Facts, Start, judge, summarize
from ddpcheck.finding import Confidence, Severity

# When the job began, its second start, and its third, in seconds.
BEGAN, AGAIN, LAST = 1000.0, 1100.0, 1200.0


def stays(name: str, before: int, now: int, were: int = 2, agents: int = 2) -> Facts:
    """Return an agent that was there before, among so many, and what it counts."""
    return Facts(name, BEGAN - 5, 3, Start(now, agents, LAST), Start(before, were, AGAIN))


def came(name: str, agents: int = 2, since: float = LAST - 10) -> Facts:
    """Return an agent that knows of no start before this one."""
    return Facts(name, since, 3, Start(0, agents, LAST))


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Facts(""), 1: Facts("")}, id="no torchrun"),
        pytest.param({0: came("a"), 1: came("b")}, id="the first start"),
        pytest.param({0: stays("a", 0, 1), 1: stays("b", 0, 1)}, id="a failure that both count"),
        pytest.param({0: stays("a", 0, 0), 1: stays("b", 0, 1)}, id="a failure of one's own rank"),
        pytest.param({0: stays("a", 0, 1, agents=1)}, id="the other one left"),
        pytest.param({0: stays("a", 0, 0, were=1), 1: came("b")}, id="one more came"),
        pytest.param({0: stays("a", 1, 1, were=1), 1: came("b")}, id="it came back after a while"),
        pytest.param(
            {0: stays("a", 0, 1), 1: came("b", since=BEGAN - 4)},
            id="one that ended early, before it noted anything",
        ),
        pytest.param({0: stays("a", 0, 1), 1: Facts("")}, id="two ranks below one agent"),
    ],
)
def test_silent(facts: dict[int, Facts]) -> None:
    assert judge(facts) == []


def test_an_agent_in_the_place_of_another_that_one_counts() -> None:
    (finding,) = judge({0: stays("node0 (pid 7)", 0, 1), 1: came("node1 (pid 9)")})
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.HIGH)
    assert finding.ranks == (0, 1)
    assert finding.title == "a change of the agents counted as a restart on node0 (pid 7) only"
    assert "agent on node1 (pid 9) took the place of one that had left" in finding.message
    assert finding.message.endswith("node0 (pid 7) 1 of 3; node1 (pid 9) 0 of 3")


def test_a_change_that_nobody_counts() -> None:
    (finding,) = judge({0: stays("a", 2, 2), 1: came("b")})
    assert finding.title == "a change of the agents counted as a restart by no agent"


def test_of_three_agents_two_that_stayed_may_count_differently() -> None:
    told = {0: stays("a", 0, 1, 3, 3), 1: stays("b", 0, 0, 3, 3), 2: came("c", 3)}
    (finding,) = judge(told)
    assert finding.title.endswith("counted as a restart on a only")


def test_summary() -> None:
    assert summarize({0: stays("a", 0, 1), 1: came("b")}) == "restarts counted by agents: 1, 0"
    assert summarize({0: Facts("")}) == "no torchrun"
