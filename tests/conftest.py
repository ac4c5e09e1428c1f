"""Before any test imports torch: one thread a process, as tests run in parallel."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
