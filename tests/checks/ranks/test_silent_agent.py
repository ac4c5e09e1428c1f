import pytest

from ddpcheck.checks.ranks.silent_agent import judge
from ddpcheck.finding import Confidence, Severity
from ddpcheck.measures.testimony import Agent, Silence, State, Testimony

STOPPED = Agent(host="node1", pid=77, silence=Silence.STOPPED, silent_s=31.4, since="10:00:01 UTC")
GONE = Agent(host="node2", pid=78, silence=Silence.GONE, since="10:00:02 UTC")


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({0: Testimony(), 1: Testimony()}, id="all is well"),
        pytest.param({0: Testimony(), 1: Testimony(state=State.GONE)}, id="a rank is lost"),
        pytest.param({0: Testimony(agent=Agent(host="node1", pid=77))}, id="an agent that lives"),
    ],
)
def test_silent(facts: dict[int, Testimony]) -> None:
    assert judge(facts) == []


def test_a_stopped_agent_is_named_with_its_ranks_and_since_when() -> None:
    below = dict.fromkeys((2, 3), Testimony(agent=STOPPED))
    (finding,) = judge({0: Testimony(), 1: Testimony()} | below)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.ranks == (2, 3)
    assert finding.title == "the agent of rank 2-3 is silent"
    assert finding.message.startswith(
        "torchrun's agent on node1 (pid 77) is stopped by a signal since 10:00:01 UTC, for 31 s: "
    )
    assert "kill -CONT 77 on node1" in finding.fix


def test_agents_that_are_gone_are_named_together() -> None:
    told = {0: Testimony(agent=STOPPED), 1: Testimony(agent=GONE), 2: Testimony()}
    (finding,) = judge(told)
    assert finding.ranks == (0, 1)
    assert "agent on node2 (pid 78) is gone, and its ranks live on" in finding.message
    assert finding.evidence == {"agents": {"node1 77": "stopped", "node2 78": "gone"}}
