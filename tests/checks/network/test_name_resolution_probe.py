from pathlib import Path

from hosts import made_hosts
from probes_on_hosts import found_by, judged, probed, said

CHECK = "network/name-resolution"


def test_real_hosts(tmp_path: Path) -> None:
    named = {"MASTER_ADDR": "host0"}
    with made_hosts(2) as hosts:
        facts = probed(CHECK, hosts, tmp_path / "same", ranks_per_host=2, environ=named)
        assert judged(CHECK, facts) == []
        assert sorted(own.asked_count for own in facts.values()) == [0, 0, 1, 1]
        hosts[1].set_etc_hosts("127.0.0.1 localhost host0\n10.77.0.2 host1\n")
        stale = found_by(CHECK, hosts, tmp_path / "stale", environ=named)
        hosts[1].set_etc_hosts("10.77.0.2 host1\n")
        one = found_by(CHECK, hosts, tmp_path / "one")
    assert said(stale) == [(CHECK, "warning", (1,))]
    assert "host0 leads to 127.0.0.1 on host1" in stale[0].message
    assert stale[0].fix.endswith("or correct it in /etc/hosts on host1")
    assert said(one) == [(CHECK, "info", (1,))]
    assert "host0" in one[0].message
    assert "let /etc/hosts or the name server of host1 know them" in one[0].fix
