"""What the ranks of a host hold in its memory, all together."""
