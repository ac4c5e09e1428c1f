#!/bin/bash
# Slurm's Prolog: checks the node before a job's first task, and drains one that fails, with the
# reason that "sinfo -R" and "scontrol show node" tell. In slurm.conf:
#     Prolog=/etc/slurm/ddpcheck-prolog.sh
#     PrologFlags=Alloc
# so that a job is not given to the node before that, and is queued anew where it fails. Only errors
# drain: a check that cannot run, or ddpcheck itself, never takes a node away.
set -u

python=${DDPCHECK_PYTHON:-python3}
reports=${DDPCHECK_REPORT_DIR:-/var/log/ddpcheck}
limit_s=${DDPCHECK_LIMIT_S:-90}

# The job's own variables are for its tasks.
for name in ${!SLURM_*}; do
    [[ $name == SLURM_CONF ]] || unset "$name"
done
timeout --kill-after=5 "$limit_s" "$python" -m ddpcheck run --profile quick --report-dir "$reports" \
    >/dev/null 2>&1
code=$?
[[ $code == 1 || $code == 4 ]] || exit 0

reason=$("$python" -m ddpcheck report "$reports/latest" --format cause)
echo "ddpcheck: $reason"
scontrol update NodeName="${SLURMD_NODENAME:-$(hostname -s)}" State=DRAIN Reason="ddpcheck: $reason"
exit 1
