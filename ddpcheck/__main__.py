"""``python -m ddpcheck``."""

import sys

from ddpcheck.cli import main

if __name__ == "__main__":
    sys.exit(main())
