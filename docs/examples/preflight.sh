#!/bin/bash
# Trains only on a machine that passes: preflight.sh train.py [ARGS]. Exit codes 1 to 4 are
# ddpcheck's, any other is the training's. RANKS: one a GPU if it is not set.
set -euo pipefail

ddpcheck run ${RANKS:+--nproc-per-node "$RANKS"} --profile quick
exec torchrun --nproc-per-node "${RANKS:-gpu}" "$@"
