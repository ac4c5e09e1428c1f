"""The reference training run."""
