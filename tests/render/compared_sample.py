"""A sample report of a run that passed, with a settings file, and is worse than its baseline."""

import msgspec
from sample_parts import check, ranks, report, run

from ddpcheck.change import Change, Comparison, Course, Part
from ddpcheck.configuration import Configuration, Suppressed, Suppression, Threshold
from ddpcheck.finding import Finding, Location, Severity
from ddpcheck.report import Report

LINK = "network/lossy-link"
FINDING = Finding(
    id=LINK,
    severity=Severity.WARNING,
    title="a link loses packets",
    message="7 of 100",
    fix="another cable",
    ranks=(8, 9),
    location=Location("train.py", 7),
)
KNOWN = Suppressed(FINDING, "a WAN, ticket 7")
UNUSED = Suppression(check="data/*", reason="old", match="epoch", location="train.py:7")
ASKED = Configuration(
    file="ddpcheck.toml",
    passed_over="pyproject.toml",
    options={"profile": "quick", "skip": "devices"},
    severity={"network/*": Severity.INFO},
    thresholds=(Threshold(LINK, "LONG_S", 0.01, 0.005),),
    suppress=(UNUSED,),
)
CHANGES = Comparison(
    before="ddpcheck-20261120-091500-00aa",
    now="ddpcheck-20261127-221003-1f2e",
    bound_ratio=0.05,
    changes=(
        Change(
            part=Part.SPEED,
            what="all_reduce of 2 MiB",
            before="0.21 GB/s",
            now="0.105 GB/s",
            course=Course.WORSE,
            ratio=-0.5,
            note="spread 5%, now 5%",
        ),
        Change(part=Part.VERSIONS, what="torch", before="2.12.0", now="2.13.0", ranks=(8, 9)),
    ),
    left_out=("all_gather of 1 KiB: the spread of both runs is larger than the bound",),
)


def configured(of: Report | None = None) -> Report:
    """16 ranks on 2 hosts, or another report, under a settings file."""
    base = of or report(run(world_size=16, hosts=("node0", "node1")), ranks(16, 8), [check(LINK)])
    asked = msgspec.structs.replace(base.run, configuration=ASKED)
    return msgspec.structs.replace(
        base, run=asked, suppressed=(KNOWN,), unused_suppressions=(UNUSED,)
    )


def compared() -> Report:
    """The same, with a baseline whose all-reduce took half as long."""
    return msgspec.structs.replace(configured(), changes=CHANGES)
