"""What is written to disk, and what comes back from it."""
