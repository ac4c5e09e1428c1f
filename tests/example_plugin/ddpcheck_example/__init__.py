"""Checks of our own cluster: one file a check, one folder a family."""
