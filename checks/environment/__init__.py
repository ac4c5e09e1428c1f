"""What the ranks run on: versions, variables, limits."""
