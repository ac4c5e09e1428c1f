"""The environment variables that steer distributed training: a registry, and how to read it."""
