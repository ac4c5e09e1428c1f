"""What is rehearsed: the built-in models, or the user's factory."""
