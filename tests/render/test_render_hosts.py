"""The bad and the good hosts, in Slurm's hostlist syntax."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render_samples import ranks, report, run, sample
from sample_parts import check

from ddpcheck.finding import Finding, Severity
from ddpcheck.measures.slurm import hosts_of
from ddpcheck.render import render
from ddpcheck.render.hostlist import MOST_IN_RANGE, hostlist, short_names
from ddpcheck.report import RankOutcome, RankRecord, Report

Scontrol = Callable[[str, str], list[str]]
CONFIG = "ClusterName=ddpcheck\nSlurmctldHost=localhost\n"
NAMES = st.builds(
    "{}{}".format,
    st.sampled_from(["node", "gpu-a", "r1n", "login.", "x"]),
    st.one_of(st.just(""), st.from_regex(r"[0-9]{1,4}", fullmatch=True)),
).filter(lambda name: not name.endswith("."))
PLAIN = [f"node{number:03d}" for number in (1, 2, 3, 7)]


def bad(shown: Report) -> str:
    return render(shown, "bad-hosts")


def with_errors(world_size: int, *named: Sequence[int]) -> Report:
    found = [Finding(id="a/b", title="t", message="m", fix="f", ranks=tuple(r)) for r in named]
    records = ranks(world_size, 2)
    for rank in {rank for each in named for rank in each}:
        records[rank] = RankRecord(
            rank=rank, host=records[rank].host, outcome=RankOutcome.FAILED, reason="a/b: t"
        )
    return report(run(world_size=world_size, hosts=()), records, [check("a/b")], found)


@pytest.fixture(scope="module")
def scontrol(tmp_path_factory: pytest.TempPathFactory) -> Scontrol:
    """Ask the real Slurm, which needs a configuration but no controller."""
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("scontrol is not installed: .ci/launchers installs Slurm")
    config = tmp_path_factory.mktemp("slurm") / "slurm.conf"
    config.write_text(CONFIG)

    def ask(what: str, hosts: str) -> list[str]:
        done = subprocess.run(
            [program, "show", what, hosts],
            env={**os.environ, "SLURM_CONF": str(config)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    return ask


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        ([], ""),
        (["login"], "login"),
        (PLAIN, "node[001-003,007]"),
        ([*PLAIN, "node001"], "node[001-003,007]"),
        (["node9", "node10", "node11"], "node[9-11]"),
        (["node09", "node10"], "node[09-10]"),
        (["node9", "node09", "node10"], "node9,node[09-10]"),
        (["node0", "node1"], "node[0-1]"),
        (["node00", "node0"], "node0,node00"),
        (["rack1-n2", "rack1-n3", "rack2-n2"], "rack1-n[2-3],rack2-n2"),
        (["node1-ib", "node2-ib"], "node1-ib,node2-ib"),
        (["n1", "m1", "login"], "login,m1,n1"),
    ],
)
def test_hostlist(hosts: list[str], shown: str) -> None:
    assert hostlist(hosts) == shown


@settings(deadline=None)
@given(st.sets(NAMES, max_size=40))
def test_what_is_folded_is_unfolded_again(hosts: set[str]) -> None:
    assert sorted(hosts_of(hostlist(hosts))) == sorted(hosts)


@pytest.mark.parametrize(
    "hosts",
    [
        PLAIN,
        ["node9", "node09", "node10", "node99", "node100", "node099"],
        ["a1b2", "a1b3", "login", "n-1-ib", "10.0.0.1", "10.0.0.2"],
        [f"gpu{number:04d}" for number in range(0, 512, 3)],
    ],
)
def test_slurm_reads_it_as_it_was_meant(scontrol: Scontrol, hosts: list[str]) -> None:
    assert sorted(scontrol("hostnames", hostlist(hosts))) == sorted(hosts)


def test_slurm_writes_it_in_the_same_way(scontrol: Scontrol) -> None:
    assert scontrol("hostlist", ",".join(PLAIN)) == [hostlist(PLAIN)]


def test_a_range_is_no_longer_than_slurm_reads() -> None:
    shown = hostlist(f"n{number}" for number in range(1, MOST_IN_RANGE + 3))
    assert shown == f"n[1-{MOST_IN_RANGE},{MOST_IN_RANGE + 1}-{MOST_IN_RANGE + 2}]"


@pytest.mark.parametrize(
    "evil",
    ["a b", "$(reboot)", "-x", "a,b", "n[1-9]", "a\nb", "x\x1b[2J", "é", "", "a" * 300, "\ud800"],
)
def test_what_is_no_host_name_gets_into_no_command(evil: str) -> None:
    assert hostlist(["node1", evil]) == "node1"


def test_hosts_of_the_lost_are_bad_and_the_others_good() -> None:
    assert bad(sample("one_rank_dead")) == "node1\n"
    assert render(sample("one_rank_dead"), "good-hosts") == "node0\n"


def test_among_4096_ranks_the_odd_hosts_are_bad() -> None:
    assert bad(sample("many_ranks")) == "node[17,401]\n"
    assert render(sample("many_ranks"), "good-hosts") == "node[0-16,18-400,402-511]\n"


def test_a_warning_is_against_no_host() -> None:
    assert bad(sample("slow_link")) == "\n"
    assert render(sample("slow_link"), "good-hosts") == "node[0-1]\n"


def test_an_error_on_every_host_is_against_none_of_several() -> None:
    assert bad(with_errors(4, (0, 1, 2, 3))) == "\n"
    assert bad(with_errors(4, (0, 1, 2, 3), (2,))) == "node1\n"
    assert bad(with_errors(2, (0, 1))) == "node0\n"


def test_a_victim_is_not_bad() -> None:
    records = ranks(4, 2)
    records[0] = RankRecord(rank=0, host="node0", outcome=RankOutcome.STALLED, reason="r")
    shown = report(run(world_size=4, hosts=()), records, [check("a/b")])
    assert bad(shown) == "node0\n"


def test_a_rank_that_never_came_has_no_host_to_name() -> None:
    assert bad(sample("incomplete")) == "node0\n"


def test_an_information_is_against_no_host() -> None:
    found = Finding(id="a/b", title="t", message="m", fix="f", ranks=(0,), severity=Severity.INFO)
    shown = report(run(world_size=4, hosts=()), ranks(4, 2), [check("a/b")], [found])
    assert bad(shown) == "\n"


@pytest.mark.parametrize(
    ("hosts", "short"),
    [
        (["n1.lab", "n2.lab"], ["n1", "n2"]),
        (["n1.a", "n1.b"], ["n1.a", "n1.b"]),
        (["10.0.0.1", "n1.lab"], ["10.0.0.1", "n1.lab"]),
    ],
)
def test_nodes_are_called_without_their_domain(hosts: list[str], short: list[str]) -> None:
    assert sorted(short_names(hosts).values()) == short


@pytest.mark.parametrize("name", ["one_rank_dead", "many_ranks", "hostile"])
def test_it_is_one_line_that_a_shell_takes_as_one_word(name: str) -> None:
    for format_name in ("bad-hosts", "good-hosts"):
        assert re.fullmatch(r"[A-Za-z0-9._,\[\]-]*\n", render(sample(name), format_name))
