"""The GPUs that the ranks use."""
