"""A report without names: nothing of them is left, and the same is still the same."""

from ipaddress import IPv4Address, IPv6Address

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_reports import found, told

from ddpcheck.anonymity.anonymize import anonymized
from ddpcheck.comparison.compare import compare
from ddpcheck.finding import Location
from ddpcheck.render import formats, render
from ddpcheck.report import CheckOutcome, LastSeen, RankRecord, Report, to_json

CHECK = "network/slow-link"
# Words that the format, or a label, has itself are no names to look for.
LETTERS = st.text("qwxzjkvy", min_size=4, max_size=9)
HOSTS = st.one_of(
    LETTERS,
    st.tuples(LETTERS, st.integers(0, 9999)).map(lambda parts: f"{parts[0]}{parts[1]}"),
    st.tuples(LETTERS, LETTERS, LETTERS).map(lambda parts: "{}-{}.{}.example".format(*parts)),
)
ADDRESSES = st.one_of(
    st.integers(1 << 24, (127 << 24) - 1).map(lambda number: str(IPv4Address(number))),
    st.integers(1 << 120, (1 << 125) - 1).map(lambda number: str(IPv6Address(number))),
    st.binary(min_size=6, max_size=6).map(lambda raw: raw.hex(":")),
)


def report_of(text: str, hosts: tuple[str, str]) -> Report:
    """Return a report of two hosts that says this in every field of every kind."""
    records = {
        rank: RankRecord(rank=rank, host=host, reason=text, last_seen=LastSeen(CHECK, text))
        for rank, host in enumerate(hosts)
    }
    finding = found(
        id=CHECK,
        message=text,
        fix=text,
        title=text,
        location=Location(text, 3, "main"),
        evidence={"seen": text, text: [text], "by_host": {text: 1.5}},
    )
    facts = {
        CHECK: {0: {"host": hosts[0], "values": {"A": text, text: "x"}, "list": [["y", text]]}}
    }
    report = told(
        hosts=dict(enumerate(hosts)),
        records=records,
        findings=[finding],
        checks={CHECK: CheckOutcome.FAIL},
        facts=facts,
        training={"checkpoint": text},
        command=f"ddpcheck run {text}",
    )
    return msgspec.structs.replace(report, later={"weather": [text]})


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_original_name_remains_in_any_format(data: st.DataObject) -> None:
    hosts = data.draw(st.tuples(HOSTS, HOSTS).filter(lambda pair: pair[0] != pair[1]))
    user, folder = data.draw(LETTERS), data.draw(LETTERS)
    address = data.draw(ADDRESSES)
    home = data.draw(st.sampled_from(("/home/{}", "/Users/{}", "/scratch/{}")))
    path = f"{home.format(user)}/{folder}/model.py"
    pattern = data.draw(
        st.sampled_from(
            (
                "{host}:29500 at {address} in {path}",
                'rank 0 ({host}) File "{path}", line 3, in main',
                "[{address}]:29500 by {user_at} | tcp://{host}:1/{path}",
                "{host},{address};({path}) 'x={path}:/usr/bin'",
                "{host}\n{address}\n{path}\n",
                "file://{path}#1 and -I{path} of {host}/{address}",
            )
        )
    )
    text = pattern.format(host=hosts[0], address=address, path=path, user_at=f"{user}@{hosts[1]}")
    report = anonymized(report_of(text, hosts))
    names = [*hosts, *(host.partition(".")[0] for host in hosts), address, path, folder]
    names += [host.partition(".")[2] for host in hosts if "." in host]
    for shown in (render(report, each) for each in formats()):
        assert [name for name in names if name in shown] == []
        assert user not in shown


def test_the_same_name_has_the_same_label_everywhere() -> None:
    report = anonymized(
        report_of("node1 asks node0 (10.0.0.1, 10.0.0.2, 10.0.0.1)", ("node0", "node1"))
    )
    assert list(report.run.hosts) == ["host1", "host2"]
    assert [record.host for record in report.ranks] == ["host1", "host2"]
    assert report.findings[0].message == "host2 asks host1 (ip1, ip2, ip1)"
    assert report.facts[CHECK][0].value["host"] == "host1"


def test_what_changed_against_a_baseline_is_left_out() -> None:
    changes = compare(told(hosts={0: "wolf", 1: "wolf"}), told(), 0.05)
    assert any("wolf" in change.before for change in changes.changes)
    shown = anonymized(msgspec.structs.replace(told(), changes=changes))
    assert b"wolf" not in to_json(shown)


def test_a_label_is_no_name_that_was_there() -> None:
    report = anonymized(report_of("host2 asks host1", ("host2", "host1")))
    assert list(report.run.hosts) == ["host3", "host4"]
    assert report.findings[0].message == "host3 asks host4"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node0.lab.example.org and other.lab.example.org", "host1.domain1 and host3.domain1"),
        ("node[0-3,7] of node12", "host3 of host4"),
        ("NODE0 node0:29500 node0's", "host1 host1:29500 host1's"),
        ("node00 nodes anode0", "host3 nodes anode0"),
        ("127.0.0.1 ::1 0.0.0.0 127.0.1.1", "127.0.0.1 ::1 0.0.0.0 127.0.1.1"),
        (
            "torch 2.13.0 driver 580.159.04 at 12:30:45",
            "torch 2.13.0 driver 580.159.04 at 12:30:45",
        ),
        ("GPU 0000:00:06.0", "GPU 0000:00:06.0"),
        ("fe80::1%eth0 [fd00::2]:80 fe80::1:", "ip1%eth0 [ip2]:80 ip1:"),
        ("::ffff:10.0.0.1 and 10.0.0.1/24", "ip1 and ip2/24"),
        ("08:00:2b:01:02:03 then 08-00-2B-01-02-04", "mac1 then mac2"),
        ("/proc/sys/kernel /dev/shm /etc/hosts", "/proc/sys/kernel /dev/shm /etc/hosts"),
        ("/home/al/x/train.py /home/al/y.py", "/home/user1/dir1/train.py /home/user1/file1.py"),
        ("~/acme/run.sh:3", "~/dir1/file1.sh:3"),
        (
            "/home/al/.venv/lib/python3.11/site-packages/torch/nn/functional.py:3",
            "/home/user1/.venv/lib/python3.11/site-packages/torch/nn/functional.py:3",
        ),
        (
            "/apps/acme/lib/python3.11/site-packages/acme/x.py",
            "/dir1/dir2/lib/python3.11/site-packages/dir2/file1.py",
        ),
        ('File "/data/my folder/x.py", line 3', 'File "/data/dir1/file1.py", line 3'),
        ("https://docs.pytorch.org/a/b.html#c", "https://docs.pytorch.org/a/b.html#c"),
        ("https://wiki.acme.example/team/x", "https://host3/dir1/dir2"),
        ("network/slow-link and/or 1/2", "network/slow-link and/or 1/2"),
        ("PATH=/opt/acme/bin:/usr/bin", "PATH=/opt/dir1/bin:/usr/bin"),
        ("al@node1 wrote /scratch/al/f", "user1@host2 wrote /scratch/dir1/dir2"),
    ],
)
def test_what_becomes_of_a_text(text: str, shown: str) -> None:
    hosts = ("node0.lab.example.org" if "lab" in text else "node0", "node1")
    report = anonymized(told(hosts=dict(enumerate(hosts)), command=text))
    assert report.run.command == shown


def test_what_the_report_is_made_of_stays() -> None:
    report = report_of("words", ("node0", "node1"))
    plain, shown = (msgspec.json.decode(to_json(each)) for each in (report, anonymized(report)))
    for name in ("verdict", "format_version", "checks"):
        assert shown[name] == plain[name]
    assert shown["run"] == {**plain["run"], "hosts": ["host1", "host2"]}
    assert shown["facts"].keys() == plain["facts"].keys()
    assert shown["findings"][0]["id"] == CHECK


def test_lists_of_hosts_in_variables_are_replaced_as_a_whole() -> None:
    values = {"SLURM_JOB_NODELIST": "gpu-[001-004],login", "MASTER_ADDR": "head:29500"}
    report = anonymized(told(facts={CHECK: {0: {"values": values, "x": "head login"}}}))
    text = to_json(report).decode()
    assert not [name for name in ("gpu-", "login", "head") if name in text]


@settings(deadline=None, max_examples=60)
@given(st.text(min_size=1, max_size=200))
def test_any_text_is_taken(text: str) -> None:
    report = report_of(text, ("node0", "node1"))
    assert to_json(anonymized(report)) == to_json(anonymized(report))
