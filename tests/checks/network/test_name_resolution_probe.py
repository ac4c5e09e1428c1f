from pathlib import Path

from hosts import made_hosts
from probes_on_hosts import probed

from ddpcheck.checks.network.name_resolution import judge
from ddpcheck.finding import Severity

CHECK = "network/name-resolution"


def test_real_hosts(tmp_path: Path) -> None:
    for name in ("same", "stale", "one"):
        (tmp_path / name).mkdir()
    named = {"MASTER_ADDR": "host0"}
    with made_hosts(2) as hosts:
        facts = probed(CHECK, hosts, tmp_path / "same", ranks_per_host=2, environ=named)
        assert judge(facts) == []
        assert sorted(own.asked_count for own in facts.values()) == [0, 0, 1, 1]
        hosts[1].set_etc_hosts("127.0.0.1 localhost host0\n10.77.0.2 host1\n")
        (finding,) = judge(probed(CHECK, hosts, tmp_path / "stale", environ=named))
        assert (finding.severity, finding.ranks) == (Severity.WARNING, (1,))
        hosts[1].set_etc_hosts("10.77.0.2 host1\n")
        (finding,) = judge(probed(CHECK, hosts, tmp_path / "one"))
        assert (finding.severity, finding.ranks) == (Severity.INFO, (1,))
        assert "host0" in finding.message
