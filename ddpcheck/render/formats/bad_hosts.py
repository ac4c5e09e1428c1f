"""The bad hosts in Slurm's hostlist syntax, to paste into ``srun --exclude=...``."""

from ddpcheck.render.blame import bad_hosts, good_hosts
from ddpcheck.render.hostlist import hostlist, short_names
from ddpcheck.report import Report


def render(report: Report, _path: str = "") -> str:
    """Return one line: the hosts of ranks that are to blame (see ``ddpcheck.render.blame``), or an empty one.

    Names are without their domain, where that is clear; what is no name of a host is left out.
    """
    names = short_names(bad_hosts(report) | good_hosts(report))
    return hostlist(names[host] for host in bad_hosts(report)) + "\n"
