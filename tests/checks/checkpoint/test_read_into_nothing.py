from ddpcheck.checks.checkpoint.read_into_nothing import Facts, judge, summarize
from ddpcheck.finding import Confidence, Location, Severity

LINE = Location("/train.py", 40, "resume")


def test_silent() -> None:
    facts = {0: Facts(0), 1: Facts(0)}
    assert judge(facts) == []
    assert summarize(facts) == "nothing that was read was lost"


def test_what_was_lost_is_told_with_the_line() -> None:
    (finding,) = judge({0: Facts(6, LINE), 1: Facts(6, LINE), 2: Facts(0)})
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert (finding.location, finding.ranks) == (LINE, (0, 1))
    assert finding.message.startswith("6 weights were read")
