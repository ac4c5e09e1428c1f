"""``python -m ddpcheck``."""

from ddpcheck.cli import command

if __name__ == "__main__":
    command()
